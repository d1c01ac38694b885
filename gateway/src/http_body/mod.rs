//! Bodies of HTTP requests and responses on their way through this process. Nothing is collected: each piece is passed on
//! when the other side asks for it, so that a slow side slows the other down, and whoever leaves cancels the rest.

mod request_body;
mod response_body;
mod unread_body;

pub use request_body::{BodyRefused, BodyWatch, RequestBody};
pub use response_body::{ResponseBody, is_event_stream};
pub use unread_body::UnreadBody;
