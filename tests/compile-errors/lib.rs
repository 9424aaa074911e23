//! Empty: the tests are programs in `tests/ui` that must not compile, and the errors that the compiler prints for them.
