//! Kernels of other crates, whose sources are compiled for the device.
use super::{Kernels, options_for};
use crate::hip::{Function, Module, Source};
use crate::sync::Mutex;
use ops_core::Result;
use std::collections::HashMap;

/// The compiled sources of other crates, by name.
#[derive(Debug, Default)]
pub(super) struct Foreign(Mutex<HashMap<String, Compiled>>);

#[derive(Debug)]
struct Compiled {
    text: String,
    module: Module,
    functions: HashMap<String, Function>,
}

impl Kernels {
    /// A kernel of a source that is not this project's. The source is compiled by hipRTC when it is used first.
    pub(crate) fn foreign(&self, source: Source<'_>, kernel: &str) -> Result<Function> {
        let mut sources = self.foreign.0.lock();
        let is_same = |known: &Compiled| known.text == source.text;
        let known = sources.get(source.name).filter(|known| is_same(known));
        if let Some(function) = known.and_then(|known| known.functions.get(kernel)) {
            return Ok(function.clone());
        }
        let module = known.map_or_else(|| self.compile_foreign(source), |known| Ok(known.module.clone()))?;
        let function = module.function(kernel)?;
        let known = sources.remove(source.name).filter(is_same);
        let mut compiled = known.unwrap_or_else(|| Compiled {
            text: source.text.to_owned(),
            module,
            functions: HashMap::new(),
        });
        compiled.functions.insert(kernel.to_owned(), function.clone());
        sources.insert(source.name.to_owned(), compiled);
        Ok(function)
    }

    fn compile_foreign(&self, source: Source<'_>) -> Result<Module> {
        let gfx = &self.device.info().gfx;
        let headers = [ops_kernels::source::HEADERS, source.headers].concat();
        let options = options_for(gfx)?;
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let compiler = self.compiler().map_err(crate::hip::Error::from)?;
        let code = compiler.compile(Source { headers: &headers, ..source }, gfx, &options);
        Ok(Module::load(&self.device, code.map_err(crate::hip::Error::from)?)?)
    }
}
