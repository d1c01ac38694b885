//! Answers each message with its own text: `cargo run -p client --example echo -- echo.agents.localhost 127.0.0.1:20001`.

use client::{Client, Error, OthersText};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mut args = std::env::args().skip(1);
    let aid = args.next().unwrap_or("echo.agents.localhost".to_owned());
    let gateway = args.next().unwrap_or("127.0.0.1:20001".to_owned());

    let echo = Client::builder(&aid).gateway(gateway);
    echo.register().await?;
    let echo = echo.connect().await?;
    println!("{} answers", echo.aid());

    let mut messages = echo.messages();
    loop {
        let message = messages.next().await?;
        match echo.send(message.from(), message.payload()).await {
            Ok(_) => println!("answered {}", message.from()),
            // The sender may be gone. Its message counts as read all the same.
            Err(error @ Error::Refused { .. }) => println!("{}", OthersText(&error.to_string())),
            Err(error) => return Err(error),
        }
    }
}
