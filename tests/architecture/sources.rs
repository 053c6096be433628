//! Finds the files that each file of a crate uses: reads `use` lines and paths such as `crate::a::b` from the source text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

/// A path of modules from the root of the crate.
type Module = Vec<String>;

/// The files of a crate, without its tests.
pub(crate) struct Crate {
    /// By the path of the module.
    files: BTreeMap<Module, File>,
}

/// A file of a crate.
#[derive(Default)]
struct File {
    /// Relative to the root folder.
    name: String,
    /// Whether it is a `mod.rs`: its re-exports are not uses of its own.
    is_face: bool,
    /// The names that `use` lines bring into scope, `*` for a whole module, with their full paths.
    imports: Vec<(String, Vec<String>)>,
    /// Paths of two and more words, and single words, outside `use` lines.
    paths: BTreeSet<Vec<String>>,
    /// Files used.
    uses: BTreeSet<Module>,
}

impl Crate {
    /// Reads the files below a folder that has a `lib.rs` or a `main.rs`.
    pub(crate) fn read(root: &Path) -> Self {
        let mut read = Self { files: BTreeMap::new() };
        let mut left = vec![root.to_path_buf()];
        while let Some(folder) = left.pop() {
            for entry in fs::read_dir(&folder).expect("a folder of the crate") {
                let path = entry.expect("an entry").path();
                let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
                if stem == "tests" {
                    continue;
                }
                if path.is_dir() {
                    left.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    read.add(root, &path);
                }
            }
        }
        let modules: Vec<Module> = read.files.keys().cloned().collect();
        for module in &modules {
            read.root_paths(module);
        }
        for module in modules {
            let uses = read.used_by(&module);
            read.files.get_mut(&module).expect("its key").uses = uses;
        }
        read
    }

    fn add(&mut self, root: &Path, path: &Path) {
        let relative: PathBuf = path.strip_prefix(root).expect("below the root").into();
        let name = relative.to_string_lossy().replace('\\', "/");
        let mut module: Module = name.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        let is_face = matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main"));
        if is_face {
            module.pop();
        }
        let text = fs::read_to_string(path).expect("source text");
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut file = File { name, is_face, ..File::default() };
        file.scan(tokens, &module);
        assert!(self.files.insert(module, file).is_none(), "{relative:?} is a module twice");
    }

    /// Spells out from the root what `use` lines take from child modules.
    fn root_paths(&mut self, module: &Module) {
        let modules: BTreeSet<Module> = self.files.keys().cloned().collect();
        let file = self.files.get_mut(module).expect("a file of the crate");
        for (_, path) in &mut file.imports {
            if modules.contains(&[&module[..], &path[..1]].concat()) {
                path.splice(0..0, ["crate".to_owned()].into_iter().chain(module.clone()));
            }
        }
    }

    /// The names of all files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        self.files.values().map(|file| &*file.name)
    }

    /// All pairs of a file and one that it uses.
    pub(crate) fn uses(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .values()
            .flat_map(|file| file.uses.iter().map(|used| (&*file.name, &*self.files[used].name)))
    }

    /// Whether a file has a path that starts with this word, or imports from it.
    pub(crate) fn names(&self, name: &str, word: &str) -> bool {
        let file = self.files.values().find(|file| file.name == name).expect("a file of the crate");
        let starts = |path: &Vec<String>| path.first().is_some_and(|first| first == word);
        file.paths.iter().any(starts) || file.imports.iter().any(|(_, path)| starts(path))
    }

    /// The files of each circle: each uses the others, directly or through others of them.
    pub(crate) fn circles(&self) -> BTreeSet<Vec<&str>> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.files.keys().map(|start| (start, self.reached_from(start))).collect();
        let around =
            reached.iter().map(|(start, from)| from.iter().filter(|&&other| reached[other].contains(start)));
        let names = around.map(|circle| circle.map(|&module| &*self.files[module].name).collect());
        names.filter(|circle: &Vec<_>| circle.len() > 1).collect()
    }

    fn reached_from<'a>(&'a self, start: &'a Module) -> BTreeSet<&'a Module> {
        let mut reached = BTreeSet::new();
        let mut left = vec![start];
        while let Some(module) = left.pop() {
            left.extend(self.files[module].uses.iter().filter(|&used| reached.insert(used)));
        }
        reached
    }

    fn used_by(&self, module: &Module) -> BTreeSet<Module> {
        let file = &self.files[module];
        let mut used = BTreeSet::new();
        for (name, path) in &file.imports {
            // A re-export is a use only where the file needs the name itself.
            if !file.is_face || file.paths.iter().any(|path| path[0] == *name) {
                used.extend(self.resolve(path, 0));
            }
        }
        for path in file.paths.iter().filter(|path| path.len() > 1) {
            used.extend(self.in_scope(module, path, 0));
        }
        used.remove(module);
        used
    }

    /// The file that defines what a path of a file stands for.
    fn in_scope(&self, module: &Module, path: &[String], depth: usize) -> Option<Module> {
        if path[0] == "crate" {
            return self.resolve(path, depth);
        }
        let imported = self.files[module].imports.iter().filter(|(name, _)| *name == path[0]);
        let child = [&module[..], &path[..1]].concat();
        let full = imported.map(|(_, to)| [&to[..], &path[1..]].concat()).chain(
            self.files.contains_key(&child).then(|| [&["crate".to_owned()], &child[..], &path[1..]].concat()),
        );
        full.into_iter().find_map(|full| self.resolve(&full, depth))
    }

    /// The file that defines what a path from the root stands for, re-exports followed; none for another crate.
    fn resolve(&self, path: &[String], depth: usize) -> Option<Module> {
        assert!(depth < 20, "{path:?} is re-exported around a circle");
        let (first, path) = path.split_first()?;
        if first != "crate" {
            return None;
        }
        let mut module: Module = vec![];
        for (place, word) in path.iter().enumerate() {
            let child = [&module[..], std::slice::from_ref(word)].concat();
            let is_last = place + 1 == path.len();
            // A function may have the name of a module; a path ends at the function.
            if self.files.contains_key(&child) && !(is_last && self.imports(&module, word)) {
                module = child;
                continue;
            }
            let file = self.files.get(&module)?;
            if self.imports(&module, word) {
                return self.in_scope(&module, &path[place..], depth + 1);
            }
            let globs = file.imports.iter().filter(|(name, _)| file.is_face && name == "*");
            let from = globs.map(|(_, glob)| [&glob[..], &path[place..]].concat());
            let found = from.into_iter().find_map(|path| self.resolve(&path, depth + 1));
            return found.or(Some(module));
        }
        self.files.contains_key(&module).then_some(module)
    }

    fn imports(&self, module: &Module, word: &str) -> bool {
        self.files.get(module).is_some_and(|file| file.imports.iter().any(|(name, _)| name == word))
    }
}

impl File {
    /// Reads tokens of this module, with those in brackets.
    fn scan(&mut self, tokens: TokenStream, module: &Module) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                // The captures of an `impl`, as `use<T>`, have no end.
                TokenTree::Ident(word)
                    if word == "use" && !tokens.get(at + 1).is_some_and(|next| is_punct(next, '<')) =>
                {
                    let length =
                        tokens[at..].iter().position(|token| is_punct(token, ';')).expect("use ends");
                    self.read_use(&tokens[at + 1..at + length], &[], module);
                    at += length;
                }
                TokenTree::Ident(word) if word == "mod" => {
                    let is_test =
                        matches!(tokens.get(at + 1), Some(TokenTree::Ident(name)) if name == "tests");
                    at += if is_test { 2 } else { 1 };
                }
                // A visibility names a module and uses nothing of it.
                TokenTree::Ident(word) if word == "pub" && tokens.get(at + 1).is_some_and(is_reach) => {
                    at += 1
                }
                // A field or a method.
                TokenTree::Ident(_) if at > 0 && is_punct(&tokens[at - 1], '.') => {}
                TokenTree::Ident(_) => {
                    let mut path = vec![tokens[at].to_string()];
                    while let Some(TokenTree::Ident(word)) = follows(&tokens, at + 1) {
                        path.push(word.to_string());
                        at += 3;
                    }
                    self.paths.insert(full(path, module));
                }
                TokenTree::Group(group) => self.scan(group.stream(), module),
                _ => {}
            }
            at += 1;
        }
    }

    /// Reads what stands between `use` and `;`, or a branch of it.
    fn read_use(&mut self, tokens: &[TokenTree], before: &[String], module: &Module) {
        let mut path = before.to_vec();
        for (place, token) in tokens.iter().enumerate() {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    if let Some(name) = tokens.get(place + 1) {
                        self.imports.push((name.to_string(), full(path, module)));
                    }
                    return;
                }
                TokenTree::Ident(word) if word == "self" && !path.is_empty() => {}
                TokenTree::Ident(word) => path.push(word.to_string()),
                TokenTree::Group(group) => {
                    let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
                    for branch in tokens.split(|token| is_punct(token, ',')).filter(|one| !one.is_empty()) {
                        self.read_use(branch, &path, module);
                    }
                    return;
                }
                token if is_punct(token, '*') => {
                    return self.imports.push(("*".to_owned(), full(path, module)));
                }
                _ => {}
            }
        }
        let name = path.last().expect("a use has a path").clone();
        self.imports.push((name, full(path, module)));
    }
}

/// The word behind `::` at this place.
fn follows(tokens: &[TokenTree], at: usize) -> Option<&TokenTree> {
    let [first, second, word] = tokens.get(at..at + 3)? else { return None };
    (is_punct(first, ':') && is_punct(second, ':') && matches!(word, TokenTree::Ident(_))).then_some(word)
}

/// Whether this is the `(super)` or `(in path)` behind `pub`, and not a type in brackets.
fn is_reach(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    let words: Vec<TokenTree> = group.stream().into_iter().collect();
    matches!(&words[..], [TokenTree::Ident(word), ..] if words.len() == 1 || word == "in")
}

fn is_punct(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

/// A path with `self` and `super` in front spelled out from the root.
fn full(path: Vec<String>, module: &Module) -> Vec<String> {
    let mut from = module.clone();
    let mut words = path.into_iter().peekable();
    match words.peek().map(String::as_str) {
        Some("self" | "super") => {}
        _ => return words.collect(),
    }
    while let Some(word) = words.next_if(|word| word == "self" || word == "super") {
        if word == "super" {
            from.pop();
        }
    }
    ["crate".to_owned()].into_iter().chain(from).chain(words).collect()
}
