//! Chat templates: Jinja, as stored in model files.
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, ErrorKind, Value};
use rocm_ops::gguf::Tokenizer;
use std::time::{SystemTime, UNIX_EPOCH};

mod json;

/// Renders a conversation of an optional system message and a user's message, up to where the answer begins.
pub fn render(tokenizer: &Tokenizer, system: Option<&str>, user: &str) -> Result<String, String> {
    let template = tokenizer.chat_template();
    let template = template
        .ok_or("this model has no chat template: run it without --chat, or use its instruct variant")?;
    let text = |id: Option<u32>| id.and_then(|id| Some(tokenizer.token(id)?.0));
    let tokens = [("bos_token", text(tokenizer.bos())), ("eos_token", text(tokenizer.eos()))];
    apply(template, &tokens, system, user).map_err(|error| format!("the model's chat template: {error}"))
}

/// Settings and context are those of `apply_chat_template` of the Python package `transformers`.
fn apply(
    template: &str,
    tokens: &[(&str, Option<&str>)],
    system: Option<&str>,
    user: &str,
) -> Result<String, Error> {
    let mut jinja = Environment::new();
    jinja.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    jinja.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    jinja.add_filter("tojson", json::tojson);
    jinja.add_function("raise_exception", |message: String| -> Result<Value, Error> {
        Err(Error::new(ErrorKind::InvalidOperation, message))
    });
    jinja.add_function("strftime_now", |format: String| date(&format, SystemTime::now()));
    let message = |role: &'static str, content: &str| {
        Value::from_pairs([("role", Value::from(role)), ("content", Value::from(content))])
    };
    let system = system.map(|text| message("system", text));
    let messages: Vec<Value> = system.into_iter().chain([message("user", user)]).collect();
    let mut context = vec![
        ("messages", Value::from(messages)),
        ("add_generation_prompt", Value::from(true)),
        ("tools", Value::from(())),
        ("documents", Value::from(())),
    ];
    context.extend(tokens.iter().map(|(name, text)| (*name, Value::from(text.unwrap_or_default()))));
    jinja.render_named_str("template", &without_marks(template), Value::from_pairs(context))
}

/// The template without `{% generation %}` and `{% endgeneration %}`, which mark answers for training and
/// print nothing; plain blocks replace them.
fn without_marks(template: &str) -> String {
    let mut parts = template.split("{%");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("{%");
        let (tag, rest) = part.split_at(part.find("%}").unwrap_or(part.len()));
        text += &match tag.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+') {
            "generation" => tag.replace("generation", "if true"),
            "endgeneration" => tag.replace("endgeneration", "endif"),
            _ => tag.to_owned(),
        };
        text.push_str(rest);
    }
    text
}

/// A UTC date formatted with the usual letters.
fn date(format: &str, at: SystemTime) -> Result<String, Error> {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (month_name, day_name) = (MONTHS[month as usize - 1], DAYS[(days as usize + 4) % 7]);
    let (mut text, mut letters) = (String::new(), format.chars());
    while let Some(letter) = letters.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        text += &match letters.next() {
            Some('Y') => year.to_string(),
            Some('m') => format!("{month:02}"),
            Some('d') => format!("{day:02}"),
            Some('B') => month_name.to_owned(),
            Some('b') => month_name[..3].to_owned(),
            Some('A') => day_name.to_owned(),
            Some('a') => day_name[..3].to_owned(),
            Some('H') => format!("{:02}", second / 3600),
            Some('M') => format!("{:02}", second / 60 % 60),
            Some('S') => format!("{:02}", second % 60),
            Some('%') => "%".to_owned(),
            other => {
                let got =
                    format!("strftime_now: %{} in {format:?}", other.map_or(String::new(), String::from));
                return Err(Error::new(ErrorKind::InvalidOperation, got));
            }
        };
    }
    Ok(text)
}

/// Year, month and day of a day since 1970 (Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let day = days + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + u64::from(month <= 2), month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn chat(template: &str, system: Option<&str>) -> Result<String, String> {
        let tokens = [("bos_token", Some("<s>")), ("eos_token", None)];
        apply(template, &tokens, system, " Hi ").map_err(|e| e.to_string())
    }

    #[test]
    fn a_conversation_is_written_as_the_template_says() {
        // Blocks on separate lines, which must not leave an empty line. The expected results are those of Jinja with the settings of `transformers`.
        let template = "{{ bos_token }}{%- for message in messages %}\n    {%- if message.role == 'user' %}\n{{ '<|user|>' + \
                        message['content'].strip() + '<|end|>' }}\n    {%- else %}\n<|{{ message.role }}|>{{ message.content }}\n\
                        {%- endif %}\n{%- endfor %}\n{% if add_generation_prompt %}\n<|assistant|>{{ eos_token }}\n{% endif %}";
        assert_eq!(chat(template, None).unwrap(), "<s><|user|>Hi<|end|><|assistant|>\n");
        assert_eq!(
            chat(template, Some("Be brief.")).unwrap(),
            "<s><|system|>Be brief.<|user|>Hi<|end|><|assistant|>\n"
        );
    }

    #[test]
    fn what_templates_use_is_there() {
        let all = "{% set ns = namespace(found=false) %}{% for m in messages[::-1] %}{% if not ns.found and m.role == 'user' %}\
                   {% set ns.found = true %}{{ loop.index0 }}{{ m.content | trim }}{% else %}{% continue %}{% endif %}{% endfor %}\
                   {% macro f(x) %}[{{ x }}]{% endmacro %}{{ f(messages | length) }}{% if tools is none %}none{% endif %}\
                   {% if nothing is defined %}!{% endif %}{{ 'a b'.split(' ') | last }}{{ messages[0].get('name', '-') }}\
                   {{ '<s>' if 'Hi' in messages[-1].content and messages[0].content.startswith(' ') else '' }}";
        assert_eq!(chat(all, None).unwrap(), "0Hi[1]noneb-<s>");
    }

    #[test]
    fn idioms_of_tools_and_training_are_there() {
        let tools = "{%- if tools is not none and tools %}{{ raise_exception('none were given') }}{% endif %}\
                     {%- set calls = [{'name': 'f', 'arguments': {'x': 1.0, 'a': \"it's <b>\"}}] %}\
                     {%- for call in calls %}{{ '{\"name\": \"' + call.name + '\", \"arguments\": ' }}\
                     {{- call.arguments | tojson if call.arguments is mapping else call.arguments }}}{% endfor %}\n\
                     {{ messages | tojson(indent=1) }}\n\
                     {{- messages | selectattr('role', 'equalto', 'user') | list | length }}\
                     {{- '' if messages[0]['content'] is string else 'parts' }}\
                     {%- for key, value in calls[0].items() %}{{ key }}{% if not loop.last %},{% endif %}{% endfor %}";
        let want = "{\"name\": \"f\", \"arguments\": {\"x\": 1.0, \"a\": \"it's <b>\"}}\
                    [\n {\n  \"role\": \"user\",\n  \"content\": \" Hi \"\n }\n]1name,arguments";
        assert_eq!(chat(tools, None).unwrap(), want);
        let marked = "a\n{%- generation -%}\n b{{ 'generation' }}\n{%- endgeneration %}\n{% generation %}c{%endgeneration%}";
        assert_eq!(chat(marked, None).unwrap(), "abgenerationc");
    }

    #[test]
    fn errors_say_what_failed() {
        let raised = chat(
            "{% if messages[0].role == 'system' %}\n{{ raise_exception('no system role') }}{% endif %}",
            Some("x"),
        );
        let raised = raised.unwrap_err();
        assert!(raised.contains("no system role") && raised.contains("template:2"), "{raised}");
        for (template, part) in [
            ("{% training %}", "training"),
            ("{{ x | tojson_as_python }}", "tojson_as_python"),
            ("{{ missing(1) }}", "missing"),
            ("{{ strftime_now('%Q') }}", "%Q"),
            ("{% if %}", "template:1"),
        ] {
            let error = chat(template, None).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let on = |days: u64| {
            date(
                "%Y-%m-%d %a %d %b %H:%M:%S %B %A %%",
                UNIX_EPOCH + Duration::from_secs(days * 86_400 + 3661),
            )
        };
        assert_eq!(on(0).unwrap(), "1970-01-01 Thu 01 Jan 01:01:01 January Thursday %");
        assert_eq!(on(19_782).unwrap(), "2024-02-29 Thu 29 Feb 01:01:01 February Thursday %");
        assert_eq!(on(20_454).unwrap(), "2026-01-01 Thu 01 Jan 01:01:01 January Thursday %");
    }
}
