//! The service alone, on either engine, through its methods and routes.

mod agui;
mod due;
mod health;
mod limits;
mod pages;
mod profiles;
mod results;
mod runner;
mod session;
mod support;
mod two;
mod validations;
