//! Texts that continue in two ways, return to an earlier token, and continue in another run of the program.
use ops_tests::families::folder;
use rocm_ops::gguf::Gguf;
use rocm_ops::models::{Decoder, State};
use rocm_ops::{Cpu, Host};

/// Recurrent layers, latent attention, keys that layers share, and plain attention.
const KINDS: [&str; 5] = ["qwen3_5-f16", "qwen3next-f16", "deepseek-v3-f16", "gemma4_e-f16", "qwen3-f16"];

struct Text {
    model: Decoder<f32, Cpu>,
    cpu: Cpu,
}

impl Text {
    fn new(name: &str) -> Self {
        let (cpu, gguf) = (Cpu::new(), Gguf::open(format!("{}/{name}.gguf", folder())).unwrap());
        Text { model: Decoder::load(&cpu, &gguf, 64).unwrap(), cpu }
    }
    fn begin(&self) -> State<Host, f32> {
        let mut state = self.model.state(&self.cpu, 64).unwrap();
        self.go_on(&mut state, &[5, 9, 23, 41, 7, 88, 12]);
        state
    }
    fn go_on(&self, state: &mut State<Host, f32>, tokens: &[u32]) -> Vec<f32> {
        self.model.forward(&self.cpu, state, tokens).unwrap()
    }
}

#[test]
fn a_copy_goes_its_own_way() {
    for name in KINDS {
        let text = Text::new(name);
        let mut first = text.begin();
        let mut second = first.fork(&text.cpu).unwrap();
        let want = text.go_on(&mut text.begin(), &[3, 4]);
        assert_ne!(text.go_on(&mut first, &[60, 61]), want, "{name}");
        assert_eq!(text.go_on(&mut second, &[3, 4]), want, "{name}");
        assert_eq!((first.len(), second.len()), (9, 9));
    }
}

#[test]
fn a_text_returns_to_a_snapshot_as_often_as_one_likes() {
    for name in KINDS {
        let text = Text::new(name);
        let mut state = text.begin();
        let point = state.snapshot(&text.cpu).unwrap();
        let want = text.go_on(&mut state, &[3, 4]);
        for other in [&[8][..], &[60, 61, 62]] {
            text.go_on(&mut state, other);
            state.rewind(&text.cpu, &point).unwrap();
            assert_eq!((state.len(), point.len()), (7, 7));
            assert_eq!(text.go_on(&mut state, &[3, 4]), want, "{name}");
        }
        state.truncate(0).unwrap();
        let error = state.rewind(&text.cpu, &point).unwrap_err().to_string();
        assert!(error.contains("a text of 0 tokens cannot go back to 7"), "{error}");
    }
}

#[test]
fn a_saved_text_goes_on_elsewhere() {
    for name in KINDS {
        let text = Text::new(name);
        let state = text.begin();
        let bytes = state.save(&text.cpu).unwrap();
        let whole = text.model.state(&text.cpu, 64).unwrap().save(&text.cpu).unwrap();
        assert!(bytes.len() > whole.len(), "only what is in use");
        let mut other = text.model.state(&text.cpu, 9).unwrap();
        other.restore(&text.cpu, &bytes).unwrap();
        assert_eq!(text.go_on(&mut other, &[3, 4]), text.go_on(&mut text.begin(), &[3, 4]), "{name}");
    }
}

#[test]
fn bytes_that_do_not_fit_change_nothing() {
    let text = Text::new("qwen3_5-f16");
    let bytes = text.begin().save(&text.cpu).unwrap();
    let mut state = text.begin();
    let want = text.go_on(&mut text.begin(), &[3]);
    let mut refused = |bytes: &[u8]| {
        let error = state.restore(&text.cpu, bytes).unwrap_err().to_string();
        assert!(error.starts_with("saved state: got "), "{error}");
    };
    for cut in [0, 7, 8, 20, 39, 40, 47, bytes.len() / 2, bytes.len() - 1] {
        refused(&bytes[..cut]);
    }
    // The numbers of the head, and the length of the first part.
    for at in [0, 8, 16, 24, 32, 40] {
        for to in [1, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at..at + 8].fill(to);
            refused(&damaged);
        }
    }
    refused(&[&bytes[..], &[0]].concat());
    refused(&Text::new("qwen3-f16").begin().save(&text.cpu).unwrap());
    assert_eq!(text.go_on(&mut state, &[3]), want);
    let mut small = text.model.state(&text.cpu, 6).unwrap();
    let error = small.restore(&text.cpu, &bytes).unwrap_err().to_string();
    assert_eq!(error, "saved state: got 7 tokens, wanted at most 6, the capacity");
}
