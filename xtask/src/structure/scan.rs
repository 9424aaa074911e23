//! What a file's tokens say: modules, imports, items and paths. Macros are read like other code, so no parser of items is used.
use super::source::{Crate, Import, Mention};
use proc_macro2::{Delimiter, Group, Ident, TokenStream, TokenTree};

/// A module in a separate file.
pub(super) struct Declared {
    /// The module with the declaration.
    pub(super) module: usize,
    pub(super) name: String,
    /// What `#[path = ..]` says.
    pub(super) at: Option<String>,
}

/// Reads a file's text into a module; returns the modules to be read from other files.
pub(super) fn scan(krate: &mut Crate, module: usize, text: &str) -> Result<Vec<Declared>, String> {
    let tokens: TokenStream = text.parse().map_err(|e| format!("{e}"))?;
    let mut scanner = Scanner { krate, declared: Vec::new() };
    scanner.code(tokens, module);
    Ok(scanner.declared)
}

struct Scanner<'c> {
    krate: &'c mut Crate,
    declared: Vec<Declared>,
}

/// What the attributes before an item say.
#[derive(Default)]
struct Attributes {
    test: bool,
    exported: bool,
    at: Option<String>,
}

/// Keywords that are followed by the name of a definition.
const DEFINING: [&str; 8] = ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];

impl Scanner<'_> {
    fn code(&mut self, tokens: TokenStream, module: usize) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut attributes = Attributes::default();
        let mut public = false;
        let mut i = 0;
        while i < tokens.len() {
            let rest = &tokens[i..];
            if let Some((length, group)) = attribute(rest) {
                self.attribute(&group, module, &mut attributes);
                i += length;
                continue;
            }
            if attributes.test {
                (attributes, public) = (Attributes::default(), false);
                i += item_length(rest);
                continue;
            }
            i += match &rest[0] {
                TokenTree::Ident(word) if word == "pub" => {
                    public = true;
                    let scoped = matches!(rest.get(1), Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Parenthesis);
                    i += 1 + usize::from(scoped && is_visibility(&rest[1]));
                    continue;
                }
                TokenTree::Ident(word) if word == "use" && !is_punct(rest.get(1), '<') => {
                    let end = rest.iter().position(|t| is_punct(Some(t), ';')).unwrap_or(rest.len());
                    self.imports(&rest[1..end], &mut Vec::new(), public, module);
                    end + 1
                }
                TokenTree::Ident(word) if word == "mod" => self.module(rest, module, &attributes),
                TokenTree::Ident(word) => self.word(word, rest, previous(&tokens, i), &attributes, module),
                TokenTree::Group(group) => {
                    self.code(group.stream(), module);
                    1
                }
                // A lifetime is not the name of an item.
                TokenTree::Punct(p) if p.as_char() == '\'' => 2,
                _ => 1,
            };
            (attributes, public) = (Attributes::default(), false);
        }
    }

    fn attribute(&mut self, group: &Group, module: usize, attributes: &mut Attributes) {
        let text = group.stream().to_string().replace(' ', "");
        attributes.test |= text == "test" || text == "cfg(test)" || text.starts_with("cfg(all(test,");
        attributes.exported |= text == "macro_export";
        if let Some(at) = text.strip_prefix("path=\"") {
            attributes.at = Some(at.trim_end_matches('"').to_owned());
        }
        if module == 0
            && let Some(doc) = doc_line(group)
        {
            self.krate.docs.push(doc);
        }
    }

    /// `mod name;` or `mod name { .. }`.
    fn module(&mut self, rest: &[TokenTree], module: usize, attributes: &Attributes) -> usize {
        match (rest.get(1), rest.get(2)) {
            (Some(TokenTree::Ident(name)), Some(TokenTree::Punct(end))) if end.as_char() == ';' => {
                let (name, at) = (plain(name), attributes.at.clone());
                self.declared.push(Declared { module, name, at });
                3
            }
            (Some(TokenTree::Ident(name)), Some(TokenTree::Group(body))) => {
                let parent = &self.krate.modules[module];
                let path = parent.path.iter().cloned().chain([plain(name)]).collect();
                let child = self.krate.add(path, Some(module), parent.file);
                self.krate.modules[module].children.insert(plain(name), child);
                self.code(body.stream(), child);
                3
            }
            _ => 1,
        }
    }

    /// A word of the code: a definition, a path, or a name. Returns how many tokens it takes.
    fn word(
        &mut self,
        word: &Ident,
        rest: &[TokenTree],
        before: Option<char>,
        attributes: &Attributes,
        module: usize,
    ) -> usize {
        let found = &mut self.krate.modules[module];
        if DEFINING.contains(&word.to_string().as_str())
            && let Some(TokenTree::Ident(name)) = rest.get(1)
        {
            if !DEFINING.contains(&name.to_string().as_str()) {
                found.defined.insert(plain(name));
                return 2;
            }
            return 1;
        }
        if word == "macro_rules"
            && let Some(TokenTree::Ident(name)) = rest.get(2)
        {
            found.defined.insert(plain(name));
            if attributes.exported {
                self.krate.macros.insert(plain(name), module);
            }
            return 3;
        }
        let (path, length) = path(rest);
        let line = word.span().start().line;
        // After `::` it goes on from a type, or is a path outside the crate.
        if before == Some(':') && path.len() > 1 && !is_single_colon(&path) {
            return length;
        }
        let next = rest.get(length);
        if path.len() > 1 {
            found.names.entry(path[0].clone()).or_insert(line);
            found.paths.push(Mention { path, line });
        } else if is_like_an_item(&path[0], next) && before != Some('.') {
            found.names.entry(path[0].clone()).or_insert(line);
        }
        length
    }

    /// The names of a `use` tree, whose path so far is `path`.
    fn imports(&mut self, tree: &[TokenTree], path: &mut Vec<String>, public: bool, module: usize) {
        let depth = path.len();
        let mut line = 0;
        let mut name = None;
        let mut tokens = tree.iter().peekable();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    name = tokens.next().map(|t| t.to_string());
                }
                TokenTree::Ident(word) => {
                    line = word.span().start().line;
                    path.push(plain(word));
                }
                TokenTree::Group(group) => {
                    let branches: Vec<TokenTree> = group.stream().into_iter().collect();
                    for branch in branches.split(|t| is_punct(Some(t), ',')).filter(|b| !b.is_empty()) {
                        self.imports(branch, path, public, module);
                    }
                    path.truncate(depth);
                    return;
                }
                TokenTree::Punct(p) if p.as_char() == '*' => {
                    let line = p.span().start().line;
                    self.krate.modules[module].imports.push(Import {
                        path: path.clone(),
                        name: None,
                        public,
                        line,
                    });
                    path.truncate(depth);
                    return;
                }
                _ => {}
            }
        }
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        if let Some(last) = path.last() {
            let name = Some(name.unwrap_or_else(|| last.clone()));
            self.krate.modules[module].imports.push(Import { path: path.clone(), name, public, line });
        }
        path.truncate(depth);
    }
}

/// The character before a token that matters to a path.
fn previous(tokens: &[TokenTree], at: usize) -> Option<char> {
    match at.checked_sub(1).map(|before| &tokens[before])? {
        TokenTree::Punct(p) => {
            let double = at >= 2 && is_punct(tokens.get(at - 2), ':');
            // `x: a::B` has one colon, `::a::B` two.
            (p.as_char() != ':' || double).then_some(p.as_char())
        }
        _ => None,
    }
}

/// Paths that start like this are the crate's own even after a colon.
fn is_single_colon(path: &[String]) -> bool {
    matches!(path[0].as_str(), "crate" | "self" | "super")
}

/// Whether a single name may be an item: a type, a constant, a call, a macro.
fn is_like_an_item(name: &str, next: Option<&TokenTree>) -> bool {
    let called = matches!(next, Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Parenthesis);
    name.starts_with(|c: char| c.is_uppercase()) || called || is_punct(next, '!')
}

/// The names of a path at the start of the tokens, and how many tokens they are.
fn path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    let mut at = 0;
    while let Some(TokenTree::Ident(name)) = tokens.get(at) {
        path.push(plain(name));
        at += 1;
        if is_punct(tokens.get(at), ':')
            && is_punct(tokens.get(at + 1), ':')
            && matches!(tokens.get(at + 2), Some(TokenTree::Ident(_)))
        {
            at += 2;
        } else {
            break;
        }
    }
    (path, at.max(1))
}

/// An attribute at the start of the tokens: how many tokens it has, and what is between its brackets.
fn attribute(tokens: &[TokenTree]) -> Option<(usize, Group)> {
    is_punct(tokens.first(), '#').then_some(())?;
    let at = 1 + usize::from(is_punct(tokens.get(1), '!'));
    match tokens.get(at)? {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Bracket => Some((at + 1, group.clone())),
        _ => None,
    }
}

/// A line of docs.
fn doc_line(group: &Group) -> Option<String> {
    let mut tokens = group.stream().into_iter();
    matches!(tokens.next()?, TokenTree::Ident(word) if word == "doc").then_some(())?;
    match tokens.nth(1)? {
        TokenTree::Literal(text) => {
            let text = text.to_string();
            Some(text.trim_start_matches(['r', '#', '"']).trim_end_matches(['#', '"']).trim().to_owned())
        }
        _ => None,
    }
}

fn is_visibility(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let first = group.stream().into_iter().next();
    matches!(first, Some(TokenTree::Ident(word)) if ["crate", "super", "self", "in"].contains(&word.to_string().as_str()))
}

/// The tokens of the item, field or arm at the start, which is for tests only.
fn item_length(tokens: &[TokenTree]) -> usize {
    let start = tokens.iter().find_map(|t| match t {
        TokenTree::Ident(word) if word != "pub" => Some(word.to_string()),
        _ => None,
    });
    // These end with a semicolon though they may have braces.
    let ends_with_semicolon = matches!(start.as_deref(), Some("use" | "static" | "type" | "let"))
        || start.as_deref() == Some("const")
            && !tokens.iter().take(5).any(|t| matches!(t, TokenTree::Ident(w) if w == "fn"));
    for (i, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Punct(p) if p.as_char() == ';' => return i + 1,
            TokenTree::Punct(p) if p.as_char() == ',' && is_field(tokens) => return i + 1,
            TokenTree::Group(g) if g.delimiter() == Delimiter::Brace && !ends_with_semicolon => return i + 1,
            _ => {}
        }
    }
    tokens.len()
}

/// Whether the tokens start like a field, a variant or an arm, which end with a comma.
fn is_field(tokens: &[TokenTree]) -> bool {
    let words =
        ["fn", "struct", "enum", "impl", "mod", "trait", "unsafe", "extern", "async", "union", "macro_rules"];
    !tokens
        .iter()
        .take(4)
        .any(|t| matches!(t, TokenTree::Ident(w) if words.contains(&w.to_string().as_str())))
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == wanted)
}

/// An identifier without `r#`.
fn plain(ident: &Ident) -> String {
    let text = ident.to_string();
    text.strip_prefix("r#").map(str::to_owned).unwrap_or(text)
}
