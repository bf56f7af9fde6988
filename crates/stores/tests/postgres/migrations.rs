//! Migrations, and tables that move to another server.

use treering_core::ports::{ChangeFilter, Cursor};
use treering_core::{Store, StoreError, TenantId};
use treering_stores::{PostgresOptions, PostgresStore};
use treering_testkit::contract::put;

use crate::server::{Schema, address, open, program};

#[test]
fn ten_stores_that_open_at_once_migrate_once() {
    let schema = Schema::new();
    let url = format!("{}&pool=2", schema.url());
    let stores: Vec<PostgresStore> = std::thread::scope(|scope| {
        let opening: Vec<_> = (0..10).map(|_| scope.spawn(|| open(&url))).collect();
        opening.into_iter().map(|store| store.join().unwrap()).collect()
    });
    for (number, store) in (1..).zip(&stores) {
        put(store, number);
    }
    let raw = schema.connect();
    assert_eq!(
        raw.first("SELECT count(*) FROM migrations"),
        raw.first("SELECT max(version) FROM migrations")
    );
    let (conversations, _) = stores[0].reader(&TenantId::default()).unwrap().totals().unwrap();
    assert_eq!(conversations, 10);
}

#[test]
fn a_store_of_the_next_version_opens_and_of_a_later_one_does_not() {
    let schema = Schema::new();
    let version = schema.open().maintenance().describe().unwrap().schema_version;
    let raw = schema.connect();
    raw.execute(&format!("INSERT INTO migrations (version) VALUES ({})", version + 1));
    put(&schema.open(), 1);
    raw.execute(&format!("INSERT INTO migrations (version) VALUES ({})", version + 2));
    let options = PostgresOptions { url: schema.url(), ..PostgresOptions::default() };
    match PostgresStore::open(&options).err() {
        Some(StoreError::TooNew { found, known, .. }) => {
            assert_eq!((found, known), (version + 2, version));
        }
        other => panic!("{other:?}"),
    }
}

/// On another server, the ids of transactions are smaller than the numbers in the tables.
#[test]
fn sequence_numbers_keep_rising_on_another_server() {
    let schema = Schema::new();
    let end = |store: &PostgresStore, after: &Cursor| {
        let reader = store.reader(&TenantId::default()).unwrap();
        let changes = reader.changes(after, &ChangeFilter::content(), 100).unwrap();
        (changes.items.len(), changes.cursor)
    };
    let first = schema.open();
    put(&first, 1);
    drop(first);
    let raw = schema.connect();
    raw.execute("SET treering.tenant = '*'");
    raw.execute("UPDATE messages SET seq = seq + (1000000000::bigint << 20)");
    raw.execute("UPDATE store SET system = 'another'");
    let second = schema.open();
    let (count, cursor) = end(&second, &Cursor::start());
    assert_eq!(count, 1);
    put(&second, 2);
    assert_eq!(end(&second, &cursor).0, 1, "the new change comes after the old ones");
}

/// A dump by the owner of the tables, who sees every tenant for it.
#[test]
fn a_dump_is_restored_in_another_database() {
    let schema = Schema::new();
    let store = schema.open();
    (1..=5).for_each(|number| put(&store, number));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dump.sql");
    let database = format!("restored_{}", std::process::id());
    let raw = schema.connect();
    raw.execute(&format!("CREATE DATABASE {database}"));
    let dump = ["--enable-row-security".into(), format!("--schema={}", schema.0)];
    program("pg_dump", &address(), &dump, &file);
    let restored = address().replace("/postgres", &format!("/{database}"));
    program("psql", &restored, &["--quiet".into(), "--set=ON_ERROR_STOP=1".into()], &file);
    let copy = open(&format!("{restored}?schema={}", schema.0));
    let totals =
        |store: &PostgresStore| store.reader(&TenantId::default()).unwrap().totals().unwrap();
    assert_eq!(totals(&copy), totals(&store));
    assert_eq!(copy.maintenance().check().unwrap(), Vec::<String>::new());
    drop(copy);
    raw.execute(&format!("DROP DATABASE {database} WITH (FORCE)"));
}
