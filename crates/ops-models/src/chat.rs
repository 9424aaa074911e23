//! Chat templates: Jinja, as stored in model files.
use crate::{Error as ModelError, Result as ModelResult};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value};
use ops_gguf::{EncodeOptions, Tokenizer};
use std::time::SystemTime;

mod date;
mod json;
mod limits;
mod methods;
mod python;
mod tags;
#[cfg(test)]
mod tests;

/// A conversation, which the model's own template turns into a prompt.
///
/// ```no_run
/// use rocm_ops::models::{Chat, GenerateOptions, TextModel};
///
/// let (cpu, file) = (rocm_ops::Cpu::new(), rocm_ops::models::open("Qwen3-0.6B")?);
/// let model = TextModel::<f32, _>::load(&cpu, &file, 4096)?;
/// let chat = Chat::new().message("system", "Be brief.").message("user", "Name three rivers.");
/// let prompt = chat.tokens(&file.tokenizer()?)?;
/// for token in model.generate(&cpu, &prompt, GenerateOptions::default())? {
///     print!("{}", token?.text);
/// }
/// # Ok::<(), rocm_ops::models::Error>(())
/// ```
///
/// The template comes with the model and is not trusted: it runs within limits of time and memory (`docs/run-your-model.md`).
#[derive(Clone, Debug, Default)]
pub struct Chat {
    messages: Vec<Value>,
    tools: Option<Vec<Value>>,
    variables: Vec<(String, Value)>,
    /// Bytes of all of it.
    size: usize,
}

impl Chat {
    /// A conversation without messages.
    pub fn new() -> Self {
        Self::default()
    }

    /// A conversation from a JSON array of messages, as `apply_chat_template` of the Python package `transformers` takes it: objects
    /// with a role, a content, and what else the template reads, such as calls of tools.
    ///
    /// ```
    /// let chat = rocm_ops::models::Chat::from_json(r#"[{"role": "user", "content": "Hi"}]"#)?;
    /// assert!(rocm_ops::models::Chat::from_json("{}").is_err());
    /// # Ok::<(), rocm_ops::models::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Chat`](crate::Error::Chat) for anything else.
    pub fn from_json(messages: &str) -> ModelResult<Self> {
        let list = list(messages, "messages", "messages, objects with a role")?;
        let has_role = |one: &Value| one.get_attr("role").is_ok_and(|role| role.as_str().is_some());
        match list.iter().position(|one| !has_role(one)) {
            Some(at) => Err(wrong("messages", format!("message {} has no role", at + 1))),
            None => Ok(Chat { messages: list, size: messages.len(), ..Self::default() }),
        }
    }

    /// Adds a message at the end; `role` is mostly `user`, `assistant` or `system`.
    #[must_use]
    pub fn message(mut self, role: &str, content: &str) -> Self {
        self.messages.push(message(role, content));
        self.size += content.len();
        self
    }

    /// Sets the tools that the model may call: a JSON array of functions with JSON schemas.
    ///
    /// # Errors
    /// [`Error::Chat`](crate::Error::Chat) for anything else.
    pub fn tools(mut self, tools: &str) -> ModelResult<Self> {
        self.tools = Some(list(tools, "tools", "tools")?);
        self.size += tools.len();
        Ok(self)
    }

    /// Sets a variable of the template, such as `enable_thinking`. The value is JSON, such as `false`, or else a string.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        self.variables.push((name.to_owned(), value));
        self
    }

    /// The conversation as the tokenizer's template writes it, up to where the model's answer begins.
    ///
    /// # Errors
    /// [`Error::Chat`](crate::Error::Chat) if the model has no template, or if it fails or goes beyond a limit; the message names the
    /// template's file.
    pub fn render(&self, tokenizer: &Tokenizer) -> ModelResult<String> {
        let what = match tokenizer.chat_template_file() {
            Some(file) => format!("the chat template of {file}"),
            None => "the model's chat template".to_owned(),
        };
        let Some(template) = tokenizer.chat_template() else {
            return Err(wrong(
                "this model",
                "no chat template; use the instruct variant of the model, or give it plain text",
            ));
        };
        let text = |id: Option<u32>| id.and_then(|id| Some(tokenizer.token(id)?.0.to_owned()));
        let mut variables: Vec<(String, Value)> = vec![
            ("bos_token".to_owned(), Value::from(text(tokenizer.bos()).unwrap_or_default())),
            ("eos_token".to_owned(), Value::from(text(tokenizer.eos()).unwrap_or_default())),
            ("add_generation_prompt".to_owned(), Value::from(true)),
            ("tools".to_owned(), self.tools.clone().map_or(Value::from(()), Value::from)),
            ("documents".to_owned(), Value::from(())),
        ];
        variables.extend(self.variables.iter().cloned());
        for (name, id) in [("unk_token", tokenizer.unknown()), ("pad_token", tokenizer.padding())] {
            variables.extend(text(id).map(|token| (name.to_owned(), Value::from(token))));
        }
        apply(template, self.messages.clone(), variables, self.size).map_err(|error| wrong(what, error))
    }

    /// [`Chat::render`] as tokens. The template writes all special tokens, including the first one; those in messages count as such.
    ///
    /// # Errors
    /// As [`Chat::render`], and [`Error::File`](crate::Error::File) for text that the tokenizer cannot encode.
    pub fn tokens(&self, tokenizer: &Tokenizer) -> ModelResult<Vec<u32>> {
        let options = EncodeOptions { bos: Some(false), eos: Some(false), special: true };
        Ok(tokenizer.encode_with(&self.render(tokenizer)?, options)?)
    }
}

fn wrong(what: impl Into<String>, reason: impl Into<String>) -> ModelError {
    ModelError::Chat { what: what.into(), reason: reason.into() }
}

/// The items of a JSON array. Maps keep their order.
fn list(json: &str, what: &str, wanted: &str) -> ModelResult<Vec<Value>> {
    serde_json::from_str(json)
        .map_err(|error| wrong(what, format!("{error}; wanted a JSON array of {wanted}")))
}

fn message(role: &str, content: &str) -> Value {
    Value::from_pairs([("role", Value::from(role)), ("content", Value::from(content))])
}

/// Renders a template within limits. Settings and context are those of `apply_chat_template` of the Python package `transformers`;
/// `size` is that of the messages, in bytes.
fn apply(
    template: &str,
    messages: Vec<Value>,
    variables: Vec<(String, Value)>,
    size: usize,
) -> Result<String, String> {
    if template.len() > limits::MAX_TEMPLATE {
        let (len, max) = (template.len(), limits::MAX_TEMPLATE);
        return Err(format!("it has {len} bytes; the limit is {max}"));
    }
    limits::run(size, job(template.to_owned(), messages, variables, size))
}

/// What renders a template.
fn job(
    template: String,
    messages: Vec<Value>,
    variables: Vec<(String, Value)>,
    size: usize,
) -> impl FnOnce() -> Result<String, String> {
    move || {
        let context = [("messages".to_owned(), Value::from(messages))].into_iter().chain(variables);
        let mut jinja = environment().map_err(|error| error.to_string())?;
        // Text of the messages costs fuel as often as it is copied.
        jinja.set_fuel(Some(limits::FUEL + size as u64));
        let rendered =
            jinja.render_named_str("template", &tags::prepare(&template), Value::from_pairs(context));
        rendered.map_err(|error| limits::message(&error))
    }
}

fn environment() -> Result<Environment<'static>, Error> {
    let mut jinja = Environment::new();
    jinja.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    python::add(&mut jinja);
    jinja.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    jinja.add_function("strftime_now", |format: String| date::date(&format, SystemTime::now()));
    Ok(jinja)
}
