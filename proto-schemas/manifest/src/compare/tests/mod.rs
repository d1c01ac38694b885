//! The rules one by one, random manifests, and a second opinion.

mod random;
mod rules;
mod second_opinion;
