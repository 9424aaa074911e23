//! Empty: the tests are the programs in `tests/ui`, which must not compile, and the compiler errors expected
//! for them.
