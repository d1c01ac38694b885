use client::{Client, OthersText};

#[tokio::main]
async fn main() -> Result<(), client::Error> {
    let gateway = std::env::args().nth(1).unwrap_or("127.0.0.1:20001".to_owned());
    let carol = Client::builder("carol.agents.localhost").gateway(&gateway).home("./agents");
    let dave = Client::builder("dave.agents.localhost").gateway(&gateway).home("./agents");
    carol.register().await?;
    dave.register().await?;
    let (carol, dave) = (carol.connect().await?, dave.connect().await?);

    carol.send_text(dave.aid(), "Hello Dave!").await?;

    // Each message once and in order, also what is sent after the server was restarted.
    let mut messages = dave.messages();
    loop {
        let message = messages.next().await?;
        println!("{}: {}", message.from(), OthersText(message.text()));
    }
}
