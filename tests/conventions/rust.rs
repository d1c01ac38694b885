//! Rust as far as the conventions have to read it, parsed by `syn`: what stands in a comment or a string is not code.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::LazyLock;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, Item, Lit, Type, UseTree};

use super::source::{SourceFile, files};

/// A file of the repository, and what it says.
pub struct RustFile {
    pub file: &'static SourceFile,
    /// All of it, tests included.
    pub whole: RustModule,
    /// What is compiled without tests: nothing behind `#[cfg(test)]`.
    pub shipped: RustModule,
}

/// What is written in one module. The modules between its braces have theirs.
#[derive(Default)]
pub struct RustModule {
    pub name: String,
    /// Whether its items stand in a file of its own.
    pub is_elsewhere: bool,
    pub modules: Vec<RustModule>,
    /// Structures, enumerations, unions, traits and aliases, at any depth.
    pub types: Vec<String>,
    /// Everything that is declared, methods included.
    pub items: HashSet<String>,
    /// The types that have an `impl`.
    pub implemented: HashSet<String>,
    /// What an import makes known under a name, here and to the modules inside. A glob is known under its whole path.
    pub imports: BTreeMap<String, Vec<String>>,
    /// Every path of more than one segment, and every import.
    pub paths: BTreeSet<Vec<String>>,
    /// Every identifier.
    pub idents: HashSet<String>,
    /// The values of string literals.
    pub literals: Vec<String>,
    /// Calls with a string as the first argument: the name of the function or method, and the string.
    pub calls: Vec<(String, String)>,
    pub attributes: HashSet<String>,
    /// The macros that are called.
    pub macros: HashSet<String>,
}

/// The Rust files below a folder, each parsed once for all tests.
pub fn rust_files(folder: &str) -> impl Iterator<Item = &'static RustFile> {
    static FILES: LazyLock<Vec<RustFile>> = LazyLock::new(|| files("", ".rs").map(RustFile::of).collect());
    FILES.iter().filter(move |rust| rust.file.is_below(folder))
}

pub fn rust_file(path: &str) -> Option<&'static RustFile> {
    rust_files("").find(|rust| rust.file.path == path)
}

impl RustFile {
    fn of(file: &'static SourceFile) -> RustFile {
        let parsed = syn::parse_file(&file.text);
        let parsed = parsed.unwrap_or_else(|error| panic!("{} is not understood: {error}", file.path));
        let [whole, shipped] = [true, false].map(|with_tests| {
            let mut module = RustModule::read(&parsed, with_tests);
            let found = found_by_build_script(file, &module);
            module.modules.extend(found);
            module
        });
        RustFile { file, whole, shipped }
    }

    /// Whether all of the file is for tests.
    pub fn is_test(&self) -> bool {
        let path = &self.file.path;
        path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
    }

    /// Whether code that is shipped has this string literal.
    pub fn has_literal(&self, text: &str) -> bool {
        self.shipped.each().any(|module| module.literals.iter().any(|literal| literal == text))
    }

    /// Whether code that is shipped names something of this path, such as `std::fs`.
    pub fn names_path(&self, path: &[&str]) -> bool {
        self.shipped.each().any(|module| module.names_path(path))
    }
}

impl RustModule {
    /// Rust that a test made up.
    pub fn made_up(text: &str, with_tests: bool) -> RustModule {
        RustModule::read(&syn::parse_file(text).expect("Rust"), with_tests)
    }

    fn read(parsed: &syn::File, with_tests: bool) -> RustModule {
        let mut reader = RustReader { with_tests, module: RustModule::default() };
        reader.visit_file(parsed);
        reader.module
    }

    /// The module, and all between its braces.
    pub fn each(&self) -> Box<dyn Iterator<Item = &RustModule> + '_> {
        Box::new([self].into_iter().chain(self.modules.iter().flat_map(RustModule::each)))
    }

    pub fn names_path(&self, path: &[&str]) -> bool {
        self.paths.iter().any(|named| named.windows(path.len()).any(|segments| segments == path))
    }

    fn import(&mut self, tree: &UseTree, before: &[String]) {
        let path_to = |last: String| [before, &[last]].concat();
        let (name, path) = match tree {
            UseTree::Path(path) => return self.import(&path.tree, &path_to(path.ident.to_string())),
            UseTree::Group(group) => return group.items.iter().for_each(|tree| self.import(tree, before)),
            UseTree::Glob(_) => (path_to("*".to_owned()).join("::"), path_to("*".to_owned())),
            // `use a::{self}` imports `a`.
            UseTree::Name(name) if name.ident == "self" && !before.is_empty() => {
                (before[before.len() - 1].clone(), before.to_vec())
            }
            UseTree::Name(name) => (name.ident.to_string(), path_to(name.ident.to_string())),
            UseTree::Rename(rename) => (rename.rename.to_string(), path_to(rename.ident.to_string())),
        };
        self.idents.extend(path.iter().cloned().chain([name.clone()]));
        self.imports.insert(name, path.clone());
        self.paths.insert(path);
    }
}

/// The modules of a file that has a build script declare them: every file beside it, and every folder with a `mod.rs`.
fn found_by_build_script(file: &SourceFile, module: &RustModule) -> Vec<RustModule> {
    if !["namespace_modules", "integration_tests"].iter().any(|name| module.macros.contains(*name)) {
        return Vec::new();
    }
    let names = files(file.folder(), ".rs").filter_map(|other| {
        let path = other.path.strip_prefix(file.folder())?.strip_prefix('/')?;
        let name = path.strip_suffix("/mod.rs").or(path.strip_suffix(".rs"))?;
        (!name.contains('/') && other.path != file.path).then_some(name)
    });
    let undeclared = names.filter(|name| module.modules.iter().all(|declared| declared.name != *name));
    undeclared
        .map(|name| RustModule { name: name.to_owned(), is_elsewhere: true, ..RustModule::default() })
        .collect()
}

/// Reads a module while `syn` walks through it.
struct RustReader {
    with_tests: bool,
    module: RustModule,
}

impl RustReader {
    fn skips(&self, attributes: &[Attribute]) -> bool {
        let is_for_tests = |attribute: &Attribute| {
            attribute.path().is_ident("cfg")
                && attribute.parse_args::<syn::Ident>().is_ok_and(|name| name == "test")
        };
        !self.with_tests && attributes.iter().any(is_for_tests)
    }

    fn declare(&mut self, item: &Item) {
        let (name, is_type) = match item {
            Item::Struct(item) => (&item.ident, true),
            Item::Enum(item) => (&item.ident, true),
            Item::Union(item) => (&item.ident, true),
            Item::Trait(item) => (&item.ident, true),
            Item::Type(item) => (&item.ident, true),
            Item::Const(item) => (&item.ident, false),
            Item::Static(item) => (&item.ident, false),
            Item::Mod(item) => (&item.ident, false),
            Item::Macro(item) => match &item.ident {
                Some(name) => (name, false),
                None => return,
            },
            _ => return,
        };
        self.module.items.insert(name.to_string());
        if is_type {
            self.module.types.push(name.to_string());
        }
    }

    /// What a macro or an attribute is given is not parsed, because each has a grammar of its own: names, paths and strings are
    /// taken as they come.
    fn read_tokens(&mut self, tokens: TokenStream) {
        let (mut path, mut colons, mut after_dot) = (Vec::new(), 0, false);
        for token in tokens {
            let sign = if let TokenTree::Punct(sign) = &token { Some(sign.as_char()) } else { None };
            let goes_on = sign == Some(':') || matches!(token, TokenTree::Ident(_)) && colons == 2;
            if !goes_on {
                self.end_path(&mut path);
            }
            match token {
                TokenTree::Ident(ident) => {
                    self.module.idents.insert(ident.to_string());
                    path.extend((!after_dot).then(|| ident.to_string()));
                }
                TokenTree::Group(group) => self.read_tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    if let Ok(Lit::Str(text)) = syn::parse_str::<Lit>(&literal.to_string()) {
                        self.module.literals.push(text.value());
                    }
                }
                TokenTree::Punct(_) => {}
            }
            colons = if sign == Some(':') { colons + 1 } else { 0 };
            after_dot = sign == Some('.');
        }
        self.end_path(&mut path);
    }

    fn end_path(&mut self, path: &mut Vec<String>) {
        let path = std::mem::take(path);
        if path.len() > 1 {
            self.module.paths.insert(path);
        }
    }

    /// A call of a function or a method, if its first argument is a string.
    fn call(&mut self, function: String, argument: Option<&Expr>) {
        if let Some(Expr::Lit(ExprLit { lit: Lit::Str(text), .. })) = argument {
            self.module.calls.push((function, text.value()));
        }
    }
}

impl<'ast> Visit<'ast> for RustReader {
    fn visit_item(&mut self, item: &'ast Item) {
        if self.skips(attributes(item)) {
            return;
        }
        self.declare(item);
        match item {
            Item::Use(item) => self.module.import(&item.tree, &[]),
            Item::Mod(item) => {
                let (name, is_elsewhere) = (item.ident.to_string(), item.content.is_none());
                let module = RustModule { name, is_elsewhere, ..RustModule::default() };
                let mut inner = RustReader { with_tests: self.with_tests, module };
                visit::visit_item_mod(&mut inner, item);
                self.module.modules.push(inner.module);
            }
            Item::Impl(implementation) => {
                if let Type::Path(path) = &*implementation.self_ty {
                    let name = path.path.segments.last().map(|segment| segment.ident.to_string());
                    self.module.implemented.extend(name);
                }
                visit::visit_item(self, item);
            }
            _ => visit::visit_item(self, item),
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !self.skips(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.module.items.insert(item.ident.to_string());
        visit::visit_impl_item_const(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.module.items.insert(signature.ident.to_string());
        visit::visit_signature(self, signature);
    }

    fn visit_ident(&mut self, ident: &'ast syn::Ident) {
        self.module.idents.insert(ident.to_string());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let segments = path.segments.iter().map(|segment| segment.ident.to_string());
            self.module.paths.insert(segments.collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.module.literals.push(literal.value());
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        if let Expr::Path(function) = &*call.func
            && let Some(name) = function.path.segments.last()
        {
            self.call(name.ident.to_string(), call.args.first());
        }
        visit::visit_expr_call(self, call);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.call(call.method.to_string(), call.args.first());
        visit::visit_expr_method_call(self, call);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        let name = attribute.path().segments.last().map(|segment| segment.ident.to_string());
        self.module.attributes.extend(name);
        // A comment of documentation is one, too.
        if !attribute.path().is_ident("doc") {
            visit::visit_attribute(self, attribute);
        }
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        let name = called.path.segments.last().map(|segment| segment.ident.to_string());
        self.module.macros.extend(name);
        visit::visit_macro(self, called);
    }

    fn visit_token_stream(&mut self, tokens: &'ast TokenStream) {
        self.read_tokens(tokens.clone());
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[test]
fn what_is_compiled_for_tests_is_left_out() {
    let text = "use a::b; #[cfg(test)] use c::{d, e}; struct S; #[cfg(test)] struct T; impl S { #[cfg(test)] fn f() { g::h(); } } \
                #[cfg(test)] mod tests; #[cfg(test)] mod more { fn f() {} } mod kept { fn i() {} }";
    let read = |with_tests| RustModule::made_up(text, with_tests);
    let (shipped, whole) = (read(false), read(true));
    assert_eq!((shipped.types, whole.types), (vec!["S".to_owned()], vec!["S".to_owned(), "T".to_owned()]));
    assert_eq!(shipped.paths, [vec!["a".to_owned(), "b".to_owned()]].into());
    let names = |modules: &[RustModule]| modules.iter().map(|module| module.name.clone()).collect::<Vec<_>>();
    assert_eq!((names(&shipped.modules), names(&whole.modules).len()), (vec!["kept".to_owned()], 3));
}

#[test]
fn names_paths_and_strings_are_found_in_macros_too() {
    let text = "#[serde(rename = \"r\")] fn f() { check!(a::b(\"x\"), c.d, crate::e); g(\"y\"); h.i(\"z\", 1); } // j::k";
    let read = RustModule::made_up(text, false);
    assert_eq!(read.literals, ["r", "x", "y", "z"]);
    assert!(read.names_path(&["a", "b"]) && read.names_path(&["crate", "e"]) && !read.names_path(&["j"]));
    assert_eq!(read.macros, ["check".to_owned()].into());
    assert_eq!(read.calls, [("g".to_owned(), "y".to_owned()), ("i".to_owned(), "z".to_owned())]);
}
