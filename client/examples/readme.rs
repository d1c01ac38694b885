use client::{Client, OthersText};

#[tokio::main]
async fn main() -> Result<(), client::Error> {
    let gateway = std::env::args().nth(1).unwrap_or("127.0.0.1:20001".to_owned());
    let alice = Client::builder("alice.agents.localhost").gateway(&gateway).home("./agents");
    let bobb = Client::builder("bobb.agents.localhost").gateway(&gateway).home("./agents");
    alice.register().await?;
    bobb.register().await?;
    let (alice, bobb) = (alice.connect().await?, bobb.connect().await?);

    alice.send_text(bobb.aid(), "Hello Bobb!").await?;

    // Each message once and in order, also what is sent after the server was restarted.
    let mut messages = bobb.messages();
    loop {
        let message = messages.next().await?;
        println!("{}: {}", message.from(), OthersText(message.text()));
    }
}
