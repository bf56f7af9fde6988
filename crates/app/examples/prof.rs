use std::time::Instant;
use treering::*;
fn main(){
  let t="harbour tide the gauge a berth reserve and model of window sill skipper morning seven is ".repeat(12);
  let b=treering::Bpe::O200k;
  let dir=std::path::PathBuf::from("/tmp/tk/h"); let _=std::fs::remove_dir_all(&dir);
  let memory=treering::open_with(&dir, treering::Sync::Full, b, Default::default()).unwrap();
  let mk=|| vec![memory.message(ThreadName::main(), NewMessage::new(Role::User,&t[..500],Timestamp::from_micros(1))),memory.message(ThreadName::main(), NewMessage::new(Role::Assistant,&t[..1000],Timestamp::from_micros(1)))];
  let ids: Vec<_>=(0..16).map(|_|memory.append(Incoming{target:Target::Named(NewConversation::default()),entries:mk(),matching:Matching::None}).unwrap().conversation.id).collect();
  let n=1000;
  let s=Instant::now();
  std::thread::scope(|sc| for w in 0..16 { let id=ids[w]; let mk=&mk; let m=memory.clone(); sc.spawn(move|| for _ in 0..n { m.append(Incoming{target:Target::Existing(id),entries:mk(),matching:Matching::None}).unwrap(); }); });
  println!("16 writers {:?}/append {:.0}/s", s.elapsed()/(16*n), (16*n) as f64/s.elapsed().as_secs_f64());
}
