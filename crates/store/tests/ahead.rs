//! Plans of one batch. A writer that has to wait plans ahead meanwhile, from what the store keeps, and what it planned is used
//! only where that is as if it had planned in its turn. Rows that several of them change are written once, and nobody can tell.

#![allow(clippy::unwrap_used)]

use std::sync::mpsc;

use tempfile::TempDir;
use treering_core::index::VectorIndex;
use treering_core::ports::{ConversationFilter, Span, StoreResult};
use treering_core::{
    Commit, Conversation, ConversationKey, MessageIdx, Reader, Store, StoreError, TenantId, Write,
};
use treering_store::{EmbeddedStore, Sync};
use treering_testkit::contract::{conversation, key, put};
use treering_testkit::contract_writers::next_message;

/// A store with two conversations that it keeps, of one message each.
fn fresh() -> (EmbeddedStore, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(folder.path(), Sync::Full).unwrap();
    put(&store, 1);
    put(&store, 2);
    (store, folder)
}

type PlanOf<'a> = Box<dyn FnMut(&dyn Reader) -> StoreResult<Commit> + Send + 'a>;

/// Commits one plan while others wait, each having tried to decide; tells how all of them ended, and how often the
/// others had to decide.
fn commit_before(
    store: &dyn Store,
    mut first: PlanOf<'static>,
    others: Vec<PlanOf<'static>>,
) -> (Vec<StoreResult<()>>, usize) {
    let (begin, begun) = mpsc::channel();
    let (decide, decided) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    let count = others.len();
    let ended = std::thread::scope(|scope| {
        let mut writers = vec![scope.spawn(move || {
            let plan = move |reader: &dyn Reader| {
                // Where it is applied again, alone, nobody listens.
                if begin.send(()).is_ok() {
                    gone.recv().ok();
                }
                first(reader)
            };
            store.commit(Box::new(plan))
        })];
        begun.recv().unwrap();
        drop(begun);
        for mut other in others {
            let decide = decide.clone();
            writers.push(scope.spawn(move || {
                let plan = move |reader: &dyn Reader| {
                    // Also where it panics.
                    let _told = Told(decide.clone());
                    other(reader)
                };
                store.commit(Box::new(plan))
            }));
            decided.recv().unwrap();
        }
        drop(decide);
        go.send(()).unwrap();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    (ended, count + decided.iter().count())
}

/// The same with one that waits.
fn commit_beside(
    store: &dyn Store,
    first: impl FnMut(&dyn Reader) -> StoreResult<Commit> + Send + 'static,
    second: impl FnMut(&dyn Reader) -> StoreResult<Commit> + Send + 'static,
) -> (StoreResult<()>, StoreResult<()>, usize) {
    let (ended, decided) = commit_before(store, Box::new(first), vec![Box::new(second)]);
    let [first, second] = ended.try_into().unwrap();
    (first, second, decided)
}

/// Tells that it is over.
struct Told(mpsc::Sender<()>);

impl Drop for Told {
    fn drop(&mut self) {
        self.0.send(()).unwrap();
    }
}

fn counts(store: &dyn Store) -> [u32; 2] {
    let reader = store.reader().unwrap();
    [1, 2].map(|number| {
        let count = reader.conversation(&key(number)).unwrap().unwrap().totals.messages;
        let said = reader.messages(&key(number), Span::starting(MessageIdx(0), usize::MAX)).unwrap();
        assert_eq!(said.len() as u32, count);
        count
    })
}

#[test]
fn what_was_planned_ahead_is_used() {
    let (store, _folder) = fresh();
    let beside = commit_beside(&store, |reader| next_message(reader, 1), |reader| next_message(reader, 2));
    assert_eq!(beside, (Ok(()), Ok(()), 1));
    assert_eq!(counts(&store), [2, 2]);
}

#[test]
fn it_is_planned_anew_where_the_conversation_has_changed() {
    let (store, _folder) = fresh();
    let next = |reader: &dyn Reader| next_message(reader, 1);
    assert_eq!(commit_beside(&store, next, next), (Ok(()), Ok(()), 2));
    assert_eq!(counts(&store), [3, 1]);
    // For a while nobody plans ahead where it was in vain; what is planned is as good.
    for number in 1..=120 {
        let other = |reader: &dyn Reader| next_message(reader, 2);
        assert_eq!(
            commit_beside(&store, other, next),
            (Ok(()), Ok(()), if number <= 100 { 2 } else { 1 }),
            "{number}"
        );
    }
    assert_eq!(counts(&store), [123, 121]);
}

#[test]
fn it_is_planned_anew_after_a_commit_that_failed() {
    let (store, _folder) = fresh();
    let twice = |reader: &dyn Reader| {
        let mut commit = next_message(reader, 1)?;
        commit.writes.extend(commit.writes.clone());
        Ok(commit)
    };
    let (first, second, decided) = commit_beside(&store, twice, |reader| next_message(reader, 1));
    assert!(matches!(first, Err(StoreError::Failed { .. })), "{first:?}");
    assert_eq!((second, decided), (Ok(()), 2));
    assert_eq!(counts(&store), [2, 1]);
}

#[test]
fn it_is_planned_anew_where_another_process_has_written() {
    let (store, folder) = fresh();
    let there = EmbeddedStore::open(folder.path(), Sync::Full).unwrap();
    let (look, looked) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    let ahead = move |reader: &dyn Reader| {
        let next = next_message(reader, 1);
        // The first time it lets the other one write.
        if look.send(()).is_ok() {
            gone.recv().ok();
        }
        next
    };
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    std::thread::scope(|scope| {
        let store = &store;
        let leading = scope.spawn(move || {
            let plan = move |reader: &dyn Reader| {
                begin.send(()).unwrap();
                ended.recv().unwrap();
                next_message(reader, 2)
            };
            store.commit(Box::new(plan)).unwrap();
        });
        begun.recv().unwrap();
        let waiting = scope.spawn(move || store.commit(Box::new(ahead)).unwrap());
        looked.recv().unwrap();
        drop(looked);
        end.send(()).unwrap();
        leading.join().unwrap();
        there.commit(Box::new(|reader| next_message(reader, 1))).unwrap();
        go.send(()).unwrap();
        waiting.join().unwrap();
    });
    assert_eq!(counts(&store), [3, 2]);
}

#[test]
fn it_is_planned_in_its_turn_where_it_needs_more_than_is_kept() {
    let (store, _folder) = fresh();
    let said = |reader: &dyn Reader| reader.messages(&key(2), Span::starting(MessageIdx(0), usize::MAX));
    let reads = move |reader: &dyn Reader| {
        assert_eq!(said(reader)?.len(), 1);
        next_message(reader, 2)
    };
    assert_eq!(commit_beside(&store, |reader| next_message(reader, 1), reads), (Ok(()), Ok(()), 2));
    let does_not_mind = move |reader: &dyn Reader| {
        let mut commit = next_message(reader, 2)?;
        commit.writes.truncate(2 * said(reader).map_or(0, |said| said.len()));
        Ok(commit)
    };
    assert_eq!(commit_beside(&store, |reader| next_message(reader, 1), does_not_mind), (Ok(()), Ok(()), 2));
    assert_eq!(counts(&store), [3, 3]);
}

/// To know that there is nothing more needs no look at what is stored, but holds only until there is.
#[test]
fn it_is_planned_anew_where_something_came_after_the_end() {
    let (store, _folder) = fresh();
    let counts_more = |reader: &dyn Reader| {
        let more = reader.messages(&key(1), Span::starting(MessageIdx(1), usize::MAX))?;
        let it = Conversation { title: Some(format!("{} more", more.len())), ..conversation(2) };
        Ok(Commit { tenant: TenantId::default(), writes: vec![Write::PutConversation(it)] })
    };
    let beside = commit_beside(&store, |reader| next_message(reader, 1), counts_more);
    assert_eq!(beside, (Ok(()), Ok(()), 2));
    let told = store.reader().unwrap().conversation(&key(2)).unwrap().unwrap();
    assert_eq!(told.title.as_deref(), Some("1 more"));
}

#[test]
fn it_is_planned_anew_where_another_index_was_chosen() {
    let (store, _folder) = fresh();
    let choose = |model: &str| {
        let write = Write::PutVectorIndex(VectorIndex::of(model));
        Commit { tenant: TenantId::default(), writes: vec![write] }
    };
    let titled = |reader: &dyn Reader| {
        let mut commit = next_message(reader, 2)?;
        if let Write::PutConversation(it) = &mut commit.writes[0] {
            it.title = reader.vector_index(&TenantId::default())?.map(|index| index.model);
        }
        Ok(commit)
    };
    let title = || store.reader().unwrap().conversation(&key(2)).unwrap().unwrap().title.unwrap();
    store.commit(Box::new(move |_| Ok(choose("old")))).unwrap();
    store.commit(Box::new(titled)).unwrap();
    assert_eq!(title(), "old");
    assert_eq!(commit_beside(&store, |reader| next_message(reader, 1), titled), (Ok(()), Ok(()), 1));
    assert_eq!(title(), "old");
    assert_eq!(commit_beside(&store, move |_| Ok(choose("new")), titled), (Ok(()), Ok(()), 2));
    assert_eq!(title(), "new");
}

#[test]
fn a_plan_that_refuses_or_panics_ahead_is_heard_in_its_turn() {
    let (store, _folder) = fresh();
    let busy = || StoreError::Busy { path: "here".into(), seconds: 1 };
    let refuse = move |_: &dyn Reader| Err(busy());
    let beside = commit_beside(&store, |reader| next_message(reader, 1), refuse);
    assert_eq!(beside, (Ok(()), Err(busy()), 2));
    let panic = |_: &dyn Reader| panic!("a plan of a test panics");
    let (_, second, decided) = commit_beside(&store, |reader| next_message(reader, 1), panic);
    assert!(matches!(second, Err(StoreError::Failed { .. })), "{second:?}");
    assert_eq!(decided, 2);
    assert_eq!(counts(&store), [3, 1]);
}

#[test]
fn of_two_puts_in_a_plan_made_ahead_the_last_one_holds() {
    let (store, _folder) = fresh();
    let twice = |reader: &dyn Reader| {
        let mut commit = next_message(reader, 2)?;
        if let Write::PutConversation(it) = &commit.writes[0] {
            let (slug, participants) = ("renamed".into(), vec!["Bo".into()]);
            commit.writes.push(Write::PutConversation(Conversation { slug, participants, ..it.clone() }));
        }
        Ok(commit)
    };
    assert_eq!(commit_beside(&store, |reader| next_message(reader, 1), twice), (Ok(()), Ok(()), 1));
    let put = store.reader().unwrap().conversation(&key(2)).unwrap().unwrap();
    assert_eq!((put.slug.as_str(), put.participants), ("renamed", vec!["Bo".to_owned()]));
    assert_eq!(counts(&store), [2, 2]);
}

#[test]
fn who_lists_in_a_batch_sees_what_was_written_in_it() {
    let (store, _folder) = fresh();
    let lists = |reader: &dyn Reader| {
        let listed = reader.conversations(&TenantId::default(), &ConversationFilter::all(10))?;
        let messages: Vec<u32> = listed.iter().map(|it| it.totals.messages).collect();
        let it = Conversation { title: Some(format!("{messages:?}")), ..conversation(2) };
        Ok(Commit { tenant: TenantId::default(), writes: vec![Write::PutConversation(it)] })
    };
    assert_eq!(commit_beside(&store, |reader| next_message(reader, 1), lists), (Ok(()), Ok(()), 2));
    let told = store.reader().unwrap().conversation(&key(2)).unwrap().unwrap();
    assert_eq!(told.title.as_deref(), Some("[1, 2]"));
}

/// It is found out only when another plan of its batch reads, or at the end.
#[test]
fn a_row_that_cannot_be_written_fails_its_own_commit() {
    let (store, folder) = fresh();
    let trigger = "CREATE TRIGGER refuse BEFORE UPDATE ON conversations WHEN new.slug = 'slug-1'
        BEGIN SELECT raise(ABORT, 'refused by a test'); END";
    rusqlite::Connection::open(folder.path().join(EmbeddedStore::FILE))
        .unwrap()
        .execute(trigger, [])
        .unwrap();
    let reads = |reader: &dyn Reader| {
        reader.messages(&key(2), Span::starting(MessageIdx(0), usize::MAX))?;
        next_message(reader, 2)
    };
    let does_not = |reader: &dyn Reader| next_message(reader, 2);
    let (first, second, _) = commit_beside(&store, |reader| next_message(reader, 1), reads);
    assert!(
        matches!(&first, Err(StoreError::Failed { detail, .. }) if detail.contains("refused by")),
        "{first:?}"
    );
    assert_eq!((second, counts(&store)), (Ok(()), [1, 2]));
    let (first, second, _) = commit_beside(&store, |reader| next_message(reader, 1), does_not);
    assert!(matches!(first, Err(StoreError::Failed { .. })), "{first:?}");
    assert_eq!((second, counts(&store)), (Ok(()), [1, 3]));
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_row_that_several_change_is_as_the_last_one_leaves_it() {
    let (store, _folder) = fresh();
    let joins = |name: &'static str| -> PlanOf<'static> {
        Box::new(move |reader| {
            let mut commit = next_message(reader, 2)?;
            if let Write::PutConversation(it) = &mut commit.writes[0] {
                it.participants.push(name.into());
            }
            Ok(commit)
        })
    };
    let first = Box::new(|reader: &dyn Reader| next_message(reader, 1));
    let (ended, decided) = commit_before(&store, first, vec![joins("Bo"), joins("Cy"), joins("Di")]);
    assert_eq!(ended, vec![Ok(()); 4]);
    // One of them could use what it had decided ahead.
    assert_eq!(decided, 5);
    let mut there = store.reader().unwrap().conversation(&key(2)).unwrap().unwrap().participants;
    there.sort();
    assert_eq!(there, ["Ana", "Bo", "Cy", "Di", "Juno"]);
    assert_eq!(counts(&store), [2, 4]);
}

#[test]
fn tenants_of_one_batch_keep_apart() {
    let (store, _folder) = fresh();
    let other = TenantId::new("other").unwrap();
    let elsewhere = |tenant: &TenantId, mut commit: Commit| {
        commit.tenant = tenant.clone();
        commit
    };
    let (tenant, put) = (other.clone(), vec![Write::PutConversation(conversation(1))]);
    let put = Commit { tenant: tenant.clone(), writes: put };
    store.commit(Box::new(move |_| Ok(put.clone()))).unwrap();
    let second = move |reader: &dyn Reader| Ok(elsewhere(&tenant, next_message(reader, 1)?));
    let (first, second, _) = commit_beside(&store, |reader| next_message(reader, 1), second);
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(counts(&store), [2, 1]);
    let there = ConversationKey { tenant: other, id: key(1).id };
    let said = store.reader().unwrap().messages(&there, Span::starting(MessageIdx(0), usize::MAX)).unwrap();
    assert_eq!(said.len(), 1);
    assert_eq!(store.check().unwrap(), Vec::<String>::new());
}
