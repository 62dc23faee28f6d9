package tidegate.saxon;

import java.io.ByteArrayInputStream;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.xml.transform.Source;
import javax.xml.transform.sax.SAXSource;
import net.sf.saxon.Configuration;
import net.sf.saxon.PreparedStylesheet;
import net.sf.saxon.lib.ResourceResolver;
import net.sf.saxon.om.NoElementsSpaceStrippingRule;
import net.sf.saxon.om.SpaceStrippingRule;
import net.sf.saxon.s9api.ItemType;
import net.sf.saxon.s9api.Processor;
import net.sf.saxon.s9api.QName;
import net.sf.saxon.s9api.SaxonApiException;
import net.sf.saxon.s9api.XdmAtomicValue;
import net.sf.saxon.s9api.XmlProcessingError;
import net.sf.saxon.s9api.XsltCompiler;
import net.sf.saxon.s9api.XsltExecutable;
import net.sf.saxon.trans.XPathException;
import org.xml.sax.InputSource;

/** A stylesheet with its modules and the values of its parameters. It has a Saxon of its own, which can be made anew. */
final class Sheet {
    /**
     * Names that messages may bring before the stylesheet is compiled anew: Saxon never forgets a name and has room for a
     * million, so that somebody could fill it with one message after another.
     */
    private static final int NAMES_MAX = 50_000;

    private final String main;
    private final Map<String, byte[]> modules;
    private final Map<String, String> values;
    private volatile Compiled compiled;

    /** What one compilation made. */
    static final class Compiled {
        final Processor processor;
        final Configuration config;
        final XsltExecutable executable;
        final Map<QName, XdmAtomicValue> parameters;
        final Names names;
        final int namesMax;
        final Form form;
        /** It says of some elements that their white space goes. */
        final boolean strips;
        volatile boolean spoilt;

        Compiled(Processor processor, XsltExecutable executable, Map<QName, XdmAtomicValue> parameters) {
            this.processor = processor;
            this.config = processor.getUnderlyingConfiguration();
            this.executable = executable;
            this.parameters = parameters;
            this.names = new Names(config.getNamePool());
            names.probe();
            this.namesMax = names.highest() + NAMES_MAX;
            PreparedStylesheet prepared = executable.getUnderlyingCompiledStylesheet();
            this.form = new Form(prepared.getPrimarySerializationProperties());
            SpaceStrippingRule rule = prepared.getTopLevelPackage().getSpaceStrippingRule();
            this.strips = rule != null && rule != NoElementsSpaceStrippingRule.getInstance();
        }
    }

    /** Compiles. What is wrong goes to `wrong`, and there is no stylesheet then. */
    static Sheet compile(Map<String, byte[]> modules, Map<String, String> values, List<XmlProcessingError> wrong)
            throws SaxonApiException, XPathException {
        Sheet sheet = new Sheet(modules, values);
        sheet.compiled = sheet.made(wrong);
        // Not when it is compiled anew: what messages brought since would be taken for its own.
        Spaces.learn();
        return sheet;
    }

    private Sheet(Map<String, byte[]> modules, Map<String, String> values) {
        this.main = modules.keySet().iterator().next();
        this.modules = modules;
        this.values = values;
    }

    /** What serves now; made anew where it was spoilt or knows too many names. `probe` looks at the latter. */
    Compiled compiled(boolean probe) {
        Compiled now = compiled;
        if (probe) {
            now.names.probe();
        }
        return now.spoilt || now.names.highest() > now.namesMax ? anew(now) : now;
    }

    /** Not to be used again: a run of it was stopped in the middle. */
    void spoil(Compiled old) {
        old.spoilt = true;
    }

    /** Replaces what is in use, unless another thread has done so. What runs ends with what it began with. */
    private synchronized Compiled anew(Compiled old) {
        if (compiled == old) {
            try {
                compiled = made(new ArrayList<>());
            } catch (SaxonApiException | XPathException error) {
                // It compiled before, of the same bytes, so the machine is short of something: the old one serves on.
                return old;
            }
        }
        return compiled;
    }

    private Compiled made(List<XmlProcessingError> wrong) throws SaxonApiException, XPathException {
        Processor processor = Locked.processor();
        XsltCompiler compiler = processor.newXsltCompiler();
        compiler.setErrorReporter(error -> {
            if (!error.isWarning()) {
                wrong.add(error);
            }
        });
        // Its own modules are all there is, then and when it runs: `document('')` is the stylesheet.
        ResourceResolver own = request -> {
            byte[] module = modules.get(request.uri);
            if (module == null) {
                throw Locked.refused(request.uri);
            }
            return source(request.uri, module);
        };
        compiler.setResourceResolver(own);
        processor.getUnderlyingConfiguration().setResourceResolver(own);
        // All of it now: mistakes are complaints, and no message waits for a compilation.
        compiler.setJustInTimeCompilation(false);
        XsltExecutable executable = compiler.compile(source(main, modules.get(main)));
        return new Compiled(processor, executable, parameters(executable));
    }

    private static Source source(String uri, byte[] module) throws XPathException {
        InputSource input = new InputSource(new ByteArrayInputStream(module));
        input.setSystemId(uri);
        return new SAXSource(Locked.reader(), input);
    }

    /** As strings; untyped where a parameter is declared something else, so that a number takes a text that is one. */
    private Map<QName, XdmAtomicValue> parameters(XsltExecutable executable) throws SaxonApiException {
        Map<QName, XsltExecutable.ParameterDetails> declared = executable.getGlobalParameters();
        Map<QName, XdmAtomicValue> made = new LinkedHashMap<>();
        for (Map.Entry<String, String> value : values.entrySet()) {
            QName name = new QName(value.getKey());
            XdmAtomicValue text = new XdmAtomicValue(value.getValue());
            XsltExecutable.ParameterDetails details = declared.get(name);
            boolean fits = details == null || details.getDeclaredItemType().matches(text);
            made.put(name, fits ? text : new XdmAtomicValue(value.getValue(), ItemType.UNTYPED_ATOMIC));
        }
        return made;
    }
}
