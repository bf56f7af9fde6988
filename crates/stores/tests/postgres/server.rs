//! The server of the tests, and a schema of its own for each test.

use std::sync::atomic::{AtomicU32, Ordering};

use treering_stores::{PostgresOptions, PostgresStore};

/// The address of the server, from `TREERING_POSTGRES`.
pub(crate) fn address() -> String {
    let server = std::env::var("TREERING_POSTGRES");
    let server =
        server.unwrap_or_else(|_| panic!("run tools/test-postgres, which starts a server"));
    server.split_whitespace().next().unwrap_or_default().to_owned()
}

/// A schema that no other test uses. Dropped with its tables at the end of the test.
pub(crate) struct Schema(pub(crate) String);

impl Schema {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(format!("test_{}_{number}", std::process::id()))
    }

    pub(crate) fn url(&self) -> String {
        format!("{}?schema={}&pool=16", address(), self.0)
    }

    pub(crate) fn open(&self) -> PostgresStore {
        open(&self.url())
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        execute(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.0));
    }
}

/// Opens a store with default options.
pub(crate) fn open(url: &str) -> PostgresStore {
    let options = PostgresOptions { url: url.into(), ..PostgresOptions::default() };
    PostgresStore::open(&options).unwrap()
}

/// An empty store, and the schema that holds it.
pub(crate) fn new_store() -> (PostgresStore, Schema) {
    let schema = Schema::new();
    (schema.open(), schema)
}

/// Executes statements with a connection of their own.
pub(crate) fn execute(sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) =
            tokio_postgres::connect(&address(), tokio_postgres::NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(sql).await.unwrap();
        drop(client);
        drop(connection.await);
    });
}
