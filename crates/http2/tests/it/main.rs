//! A session, told frames as a client sends them; what it answers is read as frames again.

mod frames;

mod answers;
mod arbitrary;
mod floods;
mod windows;
