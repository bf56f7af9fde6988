//! Serves HTTP and MCP from inside another program, which keeps using the same memory.
//!
//! `cargo run -p treering-server --example serve_embedded -- FOLDER`

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use confique::Config as _;
use treering::Memory;
use treering::config::Settings;
use treering_server::http::Server;
use treering_server::service::Service;

#[tokio::main]
#[allow(clippy::print_stdout)]
async fn main() -> Result<(), Box<dyn Error>> {
    let home =
        std::env::args_os().nth(1).map(PathBuf::from).ok_or("usage: serve_embedded FOLDER")?;
    let memory = Memory::builder(&home).without_background_work().open()?;
    memory.conversation("greetings")?.turn("Are you there?", "Yes, and over HTTP too.")?;

    let service = Service::new(memory.engine().clone(), Arc::new(Settings::builder().load()?));
    let server = Server::bind(service, &home, ([127, 0, 0, 1], 0).into()).await?;
    println!("http://{}/v1/conversations", server.address()?);
    server.run(async { drop(tokio::signal::ctrl_c().await) }).await;
    Ok(())
}
