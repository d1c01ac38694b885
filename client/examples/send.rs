//! Sends one message: `cargo run -p client --example send -- alice.agents.localhost echo.agents.localhost "Are you there?"`.

use client::{Client, Error, OthersText};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, text] = &args[..] else {
        return Err(Error::Invalid("the arguments are FROM, TO and TEXT".to_owned()));
    };
    let sender = Client::builder(from);
    sender.register().await?;
    let sender = sender.connect().await?;
    let sent = sender.send_text(to, text).await?;
    println!("{} as {}", sent.status, OthersText(&sent.message_id));
    sender.close().await;
    Ok(())
}
