//! Templates of all kinds, hostile ones included.
use super::*;

fn chat(template: &str, system: Option<&str>) -> Result<String, String> {
    let tokens =
        [("bos_token", Value::from("<s>")), ("eos_token", Value::from("")), ("tools", Value::from(()))];
    let tokens = [("add_generation_prompt", Value::from(true))].into_iter().chain(tokens);
    let tokens = tokens.map(|(name, value)| (name.to_owned(), value)).collect();
    let messages = system.iter().map(|text| message("system", text)).chain([message("user", " Hi ")]);
    apply(template, messages.collect(), tokens, 0)
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

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/outside/");

/// What Jinja prints, for expressions that minijinja reads another way or not at all.
#[test]
fn expressions_are_those_of_jinja() {
    let cases = std::fs::read_to_string(format!("{DATA}templates.json")).unwrap();
    let cases: Vec<serde_json::Value> = serde_json::from_str(&cases).unwrap();
    assert_eq!(cases.len(), 29);
    let text = |case: &serde_json::Value, key: &str| case[key].as_str().unwrap().to_owned();
    for case in &cases {
        assert_eq!(chat(&text(case, "template"), None), Ok(text(case, "right")), "{case}");
    }
    for (template, right) in MORE {
        assert_eq!(chat(template, None).as_deref(), Ok(*right), "{template}");
    }
}

const MORE: &[(&str, &str)] = &[
    ("{{ 'a b  c'.rsplit() }}{{ ' a b c '.rsplit(none, 1) }}", "['a', 'b', 'c'][' a b', 'c']"),
    ("{{ 'abcabc'.find('c', 3) }}{{ 'abc'.rfind('a', -2) }}{{ 'hé!'.index('!') }}", "5-12"),
    ("{{ '-7'.zfill(4) }}{{ 'ab'.center(5, '*') }}{{ 'a'.rjust(2, '.') }}", "-007**ab*.a"),
    ("{{ 'a\\tb'.expandtabs(4) }}{{ 'Ab Cd'.istitle() }}{{ '²'.isdecimal() }}", "a   bTrueFalse"),
    ("{{ '%05.1f|%s' % (2.25, [1, 'a']) }}{{ 'n: %d' % messages | length }}", "002.2|[1, 'a']n: 1"),
    ("{{ '100%' }}{{ 7 % 4 }}{% set x = 9 % 5 %}{{ x }}", "100%34"),
    (
        "{{ [1e20, 0.1, 1.0, none, true, 'it\\'s', (1,)] }}{{ {'a': 1e-7} }}",
        "[1e+20, 0.1, 1.0, None, True, \"it's\", (1,)]{'a': 1e-07}",
    ),
    (
        "{{ 'a b c d e f'|truncate(7, true, '.', 0) }}{{ 'Hello big world'|truncate(9, leeway=0) }}",
        "a b c .Hello...",
    ),
    ("{{ {'a b': 1, 'c': '/&'}|urlencode }}", "a+b=1&c=%2F%26"),
    (
        "{{ nothing is iterable }}{{ 1 is iterable }}{{ namespace is callable }}{{ 'a' is callable }}",
        "TrueFalseTrueFalse",
    ),
    ("{% macro f() %}{% endmacro %}{{ f is callable }}{{ '\\x41\\u00e9\\/\\d' }}", "TrueAé\\/\\d"),
    (
        "{% set ns = namespace(n=0) %}{% for m in [1, 2] %}{% set ns.n = ns.n + m -%} {% endfor %}{{ ns.n }}",
        "3",
    ),
    (
        "{% set a, b = 1, 2 %}{% set c = a if b else 3 %}{% set d %}{{ a }}%{% endset %}{{ a }}{{ b }}{{ c }}{{ d }}",
        "1211%",
    ),
    (
        "{% raw %}{% set x = '{{' %}{% endraw %}{# {% generation %} #}{{ '%}' ~ \"}}\" }}",
        "{% set x = '{{' %}%}}}",
    ),
    (
        "{{ {'a': {'b': 1}}.copy() }}{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.current }}{{ c.reset() }}",
        "{'a': {'b': 1}}12None",
    ),
];

/// Methods of ours cost one step however long they take, so that this would take minutes.
#[test]
fn the_thread_of_a_template_ends_soon_after_its_time() {
    let template =
        "{% set x = range(99999) | list %}{% for i in range(99999) %}{{ x.index(99998) }}{% endfor %}";
    let begin = std::time::Instant::now();
    let time = std::time::Duration::from_millis(100);
    let (rendered, thread) = limits::start(time, job(template.into(), Vec::new(), Vec::new(), 0)).unwrap();
    thread.join().unwrap();
    let error = rendered.recv().unwrap().unwrap_err();
    assert!(error.contains("a longer time, beyond the limit"), "{error}");
    assert!(begin.elapsed() < 100 * time, "{:?}", begin.elapsed());
}

#[test]
fn hostile_templates_end_at_once_with_the_limit() {
    let hostile = |name: &str| std::fs::read_to_string(format!("{DATA}chat_{name}.jinja")).unwrap();
    let times = |part: &str, count: usize| part.repeat(count);
    let chain = |part: &str| format!("{{{{ 1{} }}}}", times(part, 125_000 / part.len()));
    let grow = |step: &str| {
        format!(
            "{{% set ns = namespace(x=['a'], s='aa') %}}{{% for i in range(99) %}}{step}{{% endfor %}}{{{{ ns.x }}}}{{{{ ns.s }}}}"
        )
    };
    let deep =
        |open: &str, close: &str| format!("{{{{ {}1{} }}}}", times(open, 20_000), times(close, 20_000));
    let mut wrong = Vec::new();
    for (template, part) in [
        (hostile("double"), "limit"),
        (hostile("format"), "limit"),
        (hostile("indent"), "limit"),
        (hostile("join"), "limit"),
        (hostile("nsself"), "limit"),
        (format!("{{{{ 1{} }}}}", times("+1", 100_000)), "limit is"),
        (grow("{% set ns.x = [ns.x] %}"), "nested"),
        (grow("{% set ns.x = [ns.x, ns.x] %}"), "parts"),
        (grow("{% set ns.x = ns.x + ns.x %}"), "limit"),
        (grow("{% set ns.x = {'a': [ns]} %}"), "namespace"),
        (grow("{%- set ns.s = ns.s|replace('a', ns.s) -%}"), "limit"),
        (grow("{% set ns.s = ns.s.join([ns.s, ns.s, ns.s]) %}"), "limit"),
        (grow("{% set ns.s = ns.s.replace('a', ns.s) %}"), "limit"),
        (grow("{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}"), "limit"),
        ("{{ 'a' * 999999999999 }}".to_owned(), "limit"),
        ("{{ 'a'.center(999999999999) }}".to_owned(), "limit"),
        ("{{ '{:999999999}'.format(1) }}{{ 1 }}".to_owned(), "limit"),
        ("{{ '{:>{}}'.format('a', 999999999) }}".to_owned(), "limit"),
        ("{{ '%*d' % (999999999, 1) }}".to_owned(), ""),
        ("{{ messages | tojson(indent=999999999) }}".to_owned(), "limit"),
        ("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}".to_owned(), "limit"),
        (
            "{% set x = range(99999) | list %}{% set y = range(99999) | list %}\
             {% for i in range(99999) %}{{ x == y }}{% endfor %}"
                .to_owned(),
            "steps",
        ),
        ("{% macro f(x) %}{{ f([x, x]) }}{% endmacro %}{{ f(1) }}".to_owned(), "recursion"),
        ("{{ [1, 2] | batch(999999999, 'x') | list }}".to_owned(), "limit"),
        ("{{ [1, 2] | slice(999999999) | list }}".to_owned(), ""),
        (deep("(", ")"), "recursion"),
        (deep("[", "]"), "recursion"),
        (format!("{}{}", times("{% if 1 %}", 5_000), times("{% endif %}", 5_000)), "recursion"),
    ] {
        let begin = std::time::Instant::now();
        let result = chat(&template, None);
        let (fits, time) = (result.as_ref().is_err_and(|error| error.contains(part)), begin.elapsed());
        if !fits || time.as_millis() > 2000 {
            wrong.push((template.chars().take(90).collect::<String>(), result.map(|text| text.len()), time));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // As deep as the length allows: an error or a result, but no end of the stack.
    for part in ["+1", "~1", " and 1", "|abs", ".a", "[0]", " if 1", "==1", "()", "**1", " is odd"] {
        let _no_abort = chat(&chain(part), None);
    }
    let _no_abort = chat(&format!("{{% if 0 %}}{}{{% endif %}}", times("{%elif 0%}", 13_000)), None);
    for part in ["-", "not ", "- -"] {
        let _no_abort = chat(&format!("{{{{ {}1 }}}}", times(part, 125_000 / part.len())), None);
    }
    let _no_abort = chat(&times("{%set x=[x]%}", 9_000), None);
    let _no_abort = chat(&times("{%set x=[x,x]%}", 100), None);
}
