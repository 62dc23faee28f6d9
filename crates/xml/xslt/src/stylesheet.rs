//! The public interface: compiles stylesheets and transforms documents.

use std::borrow::Cow;
use std::sync::Arc;

use xml::{Builder, Document, Pool, Transcript};
use xpath::{Budget, DocumentSet, Evaluation, Expr, Name, NoHost, Plain, Value};

use crate::compile;
use crate::error::{At, Error, ErrorKind, TransformError};
use crate::exslt::FunctionInputs;
use crate::inputs::{Argument, Run};
use crate::out::{
    Composer, Encoding, Method, OutputDeclaration, OutputSettings, Serializer, Style, Target,
};
use crate::program::Program;
use crate::resolver::Resolver;
use crate::run::{DocumentsHandle, Machine, Reach, RunInputs, spaces};
use crate::stream::{ResultCache, Stream, StreamProgram, lower};

/// Initial capacity of a result, in addition to the part that grows with its source.
const ROOM_BYTES: usize = 256;

/// A compiled stylesheet. Immutable and shareable between threads.
#[derive(Debug)]
pub struct Stylesheet {
    program: Program,
    /// The output settings of `xsl:output`, adapted to canonical form.
    canonical: OutputSettings,
    /// The streaming program, or `None` if the stylesheet needs a tree.
    streamed: Option<StreamProgram>,
    /// Pool of caches for streaming runs.
    shelf: Pool<ResultCache>,
}

/// Result of a transformation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The result, serialised.
    pub bytes: Vec<u8>,
    /// The method used.
    pub method: Method,
    /// Media type for a reply with these bytes, without the character set.
    pub media_type: Cow<'static, str>,
    /// Encoding of the bytes.
    pub encoding: Encoding,
    /// Texts of `xsl:message`, in order.
    pub messages: Vec<String>,
}

impl Stylesheet {
    /// Compiles a stylesheet. `uri` is its address, used as its name in errors and as the base of its references. The resolver supplies
    /// imports and includes.
    pub fn compile(bytes: &[u8], uri: &str, resolver: &dyn Resolver) -> Result<Stylesheet, Error> {
        let program = compile::compile(bytes, uri, resolver)?;
        let streamed = lower(&program);
        let canonical = Arc::new(program.output.canonical());
        Ok(Stylesheet { program, canonical, streamed, shelf: Pool::default() })
    }

    /// Returns errors for templates, variables and attribute sets that the stylesheet refers to but does not define. A run fails when it
    /// reaches such a reference.
    pub fn missing(&self) -> &[Error] {
        &self.program.missing
    }

    /// Returns whether [`Stylesheet::transform_bytes`] can stream, without building a tree of the source. A run may still need a tree: see
    /// [`Stylesheet::needs_tree`].
    pub fn streams(&self) -> bool {
        self.streamed.is_some()
    }

    /// Returns whether [`Stylesheet::transform_bytes`] builds a tree of the source for this run.
    pub fn needs_tree(&self, run: &Run<'_>) -> bool {
        self.streamed.is_none() || asks_source(run) || !xml::shortcuts()
    }

    /// Parses a document and transforms it to bytes. The result is the same as that of parsing and [`Stylesheet::transform`], except that a
    /// streaming run counts its steps by events. If the document is malformed, that error is returned before any other.
    pub fn transform_bytes(
        &self,
        source: &[u8],
        options: &xml::Options,
        run: &Run<'_>,
    ) -> Result<Output, TransformError> {
        Ok(self.transform_transcribed(source, None, options, run)?.0)
    }

    /// Like `transform_bytes`, but uses the transcript of the source if there is one. Also returns the transcript of the result, if the run
    /// requests it and the result can have one.
    pub fn transform_transcribed(
        &self,
        source: &[u8],
        transcript: Option<&mut Transcript>,
        options: &xml::Options,
        run: &Run<'_>,
    ) -> Result<(Output, Option<Transcript>), TransformError> {
        let Some(streamed) = self.streamed.as_ref().filter(|_| !self.needs_tree(run)) else {
            let document = Document::parse(source, options).map_err(TransformError::Source)?;
            let output = self.transform(&Arc::new(document), run).map_err(TransformError::Run)?;
            return Ok((output, None));
        };
        let settings = self.settings(run);
        let begin = || {
            let mut serializer = serializer(&settings, ROOM_BYTES + source.len(), run);
            // Values from outside may contain characters that XML forbids.
            if run.transcribe && run.parameters.is_empty() {
                serializer.transcribe();
            }
            let out = Composer::new(Target::Bytes(Box::new(serializer)));
            Stream::begin(&self.program, streamed, &run.budgets, out)
        };
        if let Some(transcript) = transcript {
            let mut stream = begin();
            let replayed = transcript.replay(source, options, &mut stream);
            // In case of an error, the document is parsed, so that the error has its position.
            if let (Some(Ok(())), Ok(composer)) = (replayed, stream.finish()) {
                return output(Some(composer), &settings, Vec::new()).map_err(TransformError::Run);
            }
        }
        let mut stream = begin();
        let mut known = ResultCache::of(self.shelf.take(), run);
        let parsed = known.template_cache.parse(source, options, &mut stream);
        self.shelf.give(known);
        parsed.map_err(TransformError::Source)?;
        let composer = stream.finish().map_err(TransformError::Run)?;
        output(Some(composer), &settings, Vec::new()).map_err(TransformError::Run)
    }

    /// Transforms a document to bytes.
    pub fn transform(&self, source: &Arc<Document>, run: &Run<'_>) -> Result<Output, Error> {
        let settings = self.settings(run);
        let capacity = ROOM_BYTES + 24 * source.len() as usize;
        let serializer = serializer(&settings, capacity, run);
        let (composer, messages) = self.run(source, run, Target::Bytes(Box::new(serializer)))?;
        Ok(output(composer, &settings, messages)?.0)
    }

    fn settings(&self, run: &Run<'_>) -> OutputSettings {
        let settings = &self.program.output;
        match (run.as_xml, run.style) {
            (true, _) => {
                Arc::new(OutputDeclaration { method: Some(Method::Xml), ..(**settings).clone() })
            }
            (false, Style::Plain) => settings.clone(),
            (false, Style::Canonical) => self.canonical.clone(),
        }
    }

    /// Transforms a document to a tree. Returns it with the messages.
    pub fn transform_to_tree(
        &self,
        source: &Arc<Document>,
        run: &Run<'_>,
    ) -> Result<(Document, Vec<String>), Error> {
        let target = Target::Tree(Box::new(Builder::new()));
        let (composer, messages) = self.run(source, run, target)?;
        let tree = match composer {
            Some(composer) => composer.into_tree(),
            None => Builder::new().finish(),
        };
        Ok((tree, messages))
    }

    fn run(
        &self,
        source: &Arc<Document>,
        run: &Run<'_>,
        target: Target,
    ) -> Result<(Option<Composer>, Vec<String>), Error> {
        let source = spaces::stripped(source, &self.program);
        let mut documents = DocumentSet::new(source);
        let root = documents.root();
        let mut budget = Budget::new(xpath::Limits {
            steps_max: run.budgets.steps_max,
            nodes_max: u32::try_from(run.budgets.nodes_max).unwrap_or(u32::MAX),
            text_bytes_max: u32::try_from(run.budgets.output_bytes_max).unwrap_or(u32::MAX),
            ..xpath::Limits::default()
        });
        let given = RunInputs {
            program: &self.program,
            resolver: run.resolver,
            budgets: &run.budgets,
            base: run.base,
            inputs: FunctionInputs { now: run.now, seed: run.seed },
            lean: self.settings(run).style == Style::Canonical,
            libxslt: run.style == Style::Canonical,
        };
        if given.libxslt {
            documents.write_numbers_as_libxml();
        }
        let mut machine = Machine::new(given, root, Composer::new(target));
        for parameter in run.parameters {
            let name = Name { uri: parameter.uri.clone(), local: parameter.local.clone() };
            let value = argument(&parameter.value, &documents, &mut budget)?;
            machine.set_parameter(&name, value);
        }
        let mut reach =
            Reach { documents: DocumentsHandle::Own(&mut documents), budget: &mut budget };
        let done = machine.transform(root, &mut reach);
        let finished = machine.finish();
        done.map(|()| finished)
    }
}

/// Returns whether the value of a parameter has to be evaluated on the source.
fn asks_source(run: &Run<'_>) -> bool {
    run.parameters.iter().any(|parameter| match parameter.value {
        Argument::Expression(_) => true,
        Argument::Text(_) | Argument::Number(_) | Argument::Boolean(_) => false,
    })
}

/// Creates the serializer for a result, with the options of the run.
fn serializer(settings: &OutputSettings, capacity: usize, run: &Run<'_>) -> Serializer {
    let mut serializer = Serializer::new(settings.clone(), capacity);
    if run.strip_empty_namespaces {
        serializer.strip_empty_namespaces();
    }
    serializer
}

fn output(
    composer: Option<Composer>,
    settings: &OutputSettings,
    messages: Vec<String>,
) -> Result<(Output, Option<Transcript>), Error> {
    let serializer = composer.and_then(Composer::into_serializer);
    let (bytes, method, transcript) = match serializer {
        Some(serializer) => serializer.finish().map_err(|c| lacking(c, settings))?,
        None => (Vec::new(), Method::Xml, None),
    };
    let media_type = match settings.media_type.as_deref() {
        Some(named) => Cow::Owned(named.to_owned()),
        None => Cow::Borrowed(method.media_type()),
    };
    let encoding = settings.encoding.unwrap_or(Encoding::Utf8);
    Ok((Output { bytes, method, media_type, encoding, messages }, transcript))
}

/// Returns the error for a character that the output encoding lacks, in a name, a comment or plain text.
fn lacking(c: char, settings: &OutputSettings) -> Error {
    let encoding = settings.encoding.unwrap_or(Encoding::Utf8).name();
    let number = u32::from(c);
    let what = format!(
        "the encoding {encoding} lacks the character U+{number:04X}, and no reference can stand in its place"
    );
    Error::new(ErrorKind::Dynamic(what.into()), At::default())
}

fn argument(
    argument: &Argument,
    documents: &DocumentSet,
    budget: &mut Budget,
) -> Result<Value, Error> {
    Ok(match argument {
        Argument::Text(text) => Value::text(&**text),
        Argument::Number(number) => Value::Number(*number),
        Argument::Boolean(boolean) => Value::Boolean(*boolean),
        Argument::Expression(text) => {
            let mut host = NoHost;
            let mut evaluation = Evaluation::of(documents, documents.root(), &mut host, budget);
            let compiled = Expr::compile(text, &Plain::default());
            let value = compiled.and_then(|expr| expr.value(&mut evaluation));
            value.map_err(|error| {
                let what = format!("the parameter `{text}`: {error}");
                Error::new(ErrorKind::Expression(what.into()), At::default())
            })?
        }
    })
}
