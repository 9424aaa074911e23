//! What may make the output of a model differ from what its authors intended.
use crate::folder::origin;
use crate::keys::Keys;
use ops_gguf::Gguf;

/// About a model whose files say how its tokens become one vector.
pub(crate) const EMBEDDING: &str = "this is an embedding model, made to turn a text into a vector; the text that it generates is of little use";

/// Warnings about a model: what was noticed when its folder was opened, and what its metadata lacks. Empty for most models.
///
/// ```no_run
/// let model = rocm_ops::models::open("model.gguf")?;
/// for warning in rocm_ops::models::warnings(&model) {
///     eprintln!("warning: {warning}");
/// }
/// # Ok::<(), rocm_ops::models::Error>(())
/// ```
pub fn warnings(model: &Gguf) -> Vec<String> {
    let mut all = origin::warnings(model.metadata());
    if let Ok(keys) = Keys::new(model.metadata())
        && crate::families().any(|name| name == keys.architecture())
    {
        all.extend([pooling(&keys), window(model, &keys), scoring(model, &keys)].into_iter().flatten());
    }
    all
}

fn pooling(keys: &Keys<'_>) -> Option<String> {
    let kind = keys.find::<u32>("pooling_type").ok()?.filter(|kind| *kind != 0)?;
    Some(format!("`{}.pooling_type` is {kind}: {EMBEDDING}", keys.architecture()))
}

/// Converters drop the window of two families, so that a file looks as if it had none.
fn window(model: &Gguf, keys: &Keys<'_>) -> Option<String> {
    const WINDOW: u32 = 4096;
    let architecture = keys.architecture();
    let (has_window, context) =
        (keys.find::<u32>("attention.sliding_window").ok()?.is_some(), keys.count("context_length").ok()?);
    let family = crate::families::lost_window(model, keys)?;
    // Folders say whether there is a window.
    if has_window || origin::is_folder(model.metadata()) || context <= WINDOW as usize {
        return None;
    }
    Some(format!(
        "no `{architecture}.attention.sliding_window`: models of the kind of {family} attend to {WINDOW} tokens, but the file does not \
         say so; from position {WINDOW} on, the output may differ. Use the model's folder, or a shorter --context"
    ))
}

fn scoring(model: &Gguf, keys: &Keys<'_>) -> Option<String> {
    let key = "expert_gating_func";
    let biased = model.tensors().any(|tensor| tensor.name().contains("exp_probs_b"));
    let missing = keys.find::<u32>(key).ok()?.unwrap_or(0) == 0;
    (biased && missing).then(|| {
        format!(
            "no `{}.{key}` beside the tensors exp_probs_b: softmax is used, but most models with these tensors score experts with \
             sigmoid; convert the file with a current converter",
            keys.architecture()
        )
    })
}
