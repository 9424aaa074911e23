//! Files of kinds that people have, and that differ from what this project writes.
use super::tests::{printed, repository};
use serde_json::Value;

fn data(name: &str) -> String {
    repository(&format!("tests/data/outside/{name}"))
}

/// `cases.json` says how `generate` is called and what is right.
#[test]
fn every_odd_file_does_what_its_case_says() {
    let cases = std::fs::read_to_string(data("cases.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&cases).unwrap();
    let wrong: Vec<String> = cases.iter().filter_map(|case| differs(case).err()).collect();
    assert!(
        !cases.is_empty() && wrong.is_empty(),
        "{} of {} cases:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

fn differs(case: &Value) -> Result<(), String> {
    let input = data(case["input"].as_str().unwrap());
    let words: Vec<&str> =
        case["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let result = printed(&[&["--model", &input], &words[..]].concat());
    let fail = |got: &dyn std::fmt::Debug| Err(format!("{input} {words:?}: {got:?}; wanted {case}"));
    if let (2, Err(message)) = (case["rc"].as_u64().unwrap(), &result) {
        let says = message.contains(case["stderr"].as_str().unwrap()) && message.contains(&input);
        return if says { Ok(()) } else { fail(message) };
    }
    let (0, Ok(out)) = (case["rc"].as_u64().unwrap(), &result) else { return fail(&result) };
    let mut right = true;
    if let Some(ids) = case["ids"].as_array() {
        let ids: Vec<String> = ids.iter().map(Value::to_string).collect();
        right &= out.trim_end() == ids.join(" ");
    }
    if let Some(text) = case["stdout"].as_str() {
        right &= out.trim_end_matches('\n') == text;
    }
    if let Some(keys) = case["json"].as_object() {
        let got: Value = serde_json::from_str(out).unwrap();
        right &= keys.iter().all(|(key, value)| got[key] == *value);
    }
    if let Some(warning) = case["stderr"].as_str() {
        let warnings = ops_models::warnings(&ops_models::open(&input).unwrap());
        right &= warnings.iter().any(|one| one.contains(warning));
    }
    if right { Ok(()) } else { fail(out) }
}

/// Where nothing is generated, `--max-tokens` must not choose the factors of Phi 3. The folder has no tokenizer.
#[test]
fn max_tokens_do_not_count_where_nothing_is_generated() {
    let model = repository("tests/data/folders/phi3_long");
    let path = std::env::temp_dir().join(format!("generate-factors-{}.json", std::process::id()));
    let logits = |most: &str| {
        let words = ["--model", &model, "--prompt-ids", "3,1,2", "--max-tokens", most, "--top1"];
        let top = printed(&[&words[..], &["--logits", path.to_str().unwrap()]].concat()).unwrap();
        (top, std::fs::read_to_string(&path).unwrap())
    };
    assert_eq!(logits("1"), logits("100"));
    std::fs::remove_file(&path).unwrap();
    let ids =
        printed(&["--model", &model, "--prompt-ids", "3,1,2", "--max-tokens", "3", "--temperature", "0"])
            .unwrap();
    assert_eq!(ids.split_whitespace().filter(|id| id.parse::<u32>().is_ok()).count(), 3, "{ids}");
}

#[test]
fn unknown_options_run_on_request() {
    let to = std::env::temp_dir().join(format!("generate-unknown-{}", std::process::id()));
    std::fs::create_dir_all(&to).unwrap();
    for entry in std::fs::read_dir(data("12-smollm2-options")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
    let config = std::fs::read_to_string(to.join("config.json")).unwrap();
    std::fs::write(to.join("config.json"), config.replacen('{', "{\"new_option\": 3,", 1)).unwrap();
    let words = ["--model", to.to_str().unwrap(), "--prompt", "q", "--temperature", "0", "--ids"];
    assert!(printed(&words).unwrap_err().contains("`new_option`: got 3"));
    let ids = printed(&[&words[..], &["--allow-unknown-options"]].concat()).unwrap();
    assert_eq!(ids, "1 3 10\n");
    std::fs::remove_dir_all(to).unwrap();
}
