package tidegate.saxon;

import java.util.Collections;
import java.util.Set;
import javax.xml.XMLConstants;
import javax.xml.parsers.SAXParserFactory;
import net.sf.saxon.Configuration;
import net.sf.saxon.lib.EnvironmentVariableResolver;
import net.sf.saxon.lib.Feature;
import net.sf.saxon.s9api.Processor;
import net.sf.saxon.trans.Maker;
import net.sf.saxon.trans.XPathException;
import org.xml.sax.XMLReader;

/**
 * A Saxon that reaches nothing: no file, no network, no code outside the stylesheet, no variable of the process. Whatever asks
 * is refused, and the stylesheet fails.
 */
final class Locked {
    static final String REFUSED = "nothing outside the stylesheet and the message is read: ";

    private Locked() {}

    static Processor processor() {
        Processor processor = new Processor(new Functions.Having());
        Configuration config = processor.getUnderlyingConfiguration();
        config.setProcessor(processor);
        config.setConfigurationProperty(Feature.ALLOW_EXTERNAL_FUNCTIONS, false);
        config.setConfigurationProperty(Feature.ALLOWED_PROTOCOLS, "");
        config.setConfigurationProperty(Feature.DISABLE_XSL_EVALUATE, true);
        config.setConfigurationProperty(Feature.ENVIRONMENT_VARIABLE_RESOLVER, new NoVariables());
        config.setConfigurationProperty(Feature.PRE_EVALUATE_DOC_FUNCTION, false);
        config.setConfigurationProperty(Feature.XINCLUDE, false);
        config.setConfigurationProperty(Feature.LINE_NUMBERING, false);
        config.setResourceResolver(request -> {
            throw refused(request.uri);
        });
        config.setUnparsedTextURIResolver((uri, encoding, asking) -> {
            throw refused(String.valueOf(uri));
        });
        config.setCollectionFinder((context, uri) -> {
            throw refused(uri);
        });
        config.setErrorReporterFactory(asking -> error -> { });
        Maker<XMLReader> reader = Locked::reader;
        config.setParseOptions(config.getParseOptions().withXMLReaderMaker(reader)
                .withEntityResolver((publicId, systemId) -> {
                    throw new org.xml.sax.SAXException(REFUSED + systemId);
                }));
        return processor;
    }

    static XPathException refused(String what) {
        return new XPathException(REFUSED + what, "FODC0002");
    }

    /** A parser for stylesheets, and for what they parse themselves: internal entities within the JDK's bounds, none outside. */
    static XMLReader reader() throws XPathException {
        try {
            SAXParserFactory factory = SAXParserFactory.newInstance();
            factory.setNamespaceAware(true);
            factory.setFeature(XMLConstants.FEATURE_SECURE_PROCESSING, true);
            factory.setFeature("http://xml.org/sax/features/external-general-entities", false);
            factory.setFeature("http://xml.org/sax/features/external-parameter-entities", false);
            factory.setFeature("http://apache.org/xml/features/nonvalidating/load-external-dtd", false);
            XMLReader reader = factory.newSAXParser().getXMLReader();
            reader.setEntityResolver((publicId, systemId) -> {
                throw new org.xml.sax.SAXException(REFUSED + systemId);
            });
            return reader;
        } catch (Exception error) {
            throw new XPathException(error);
        }
    }

    private static final class NoVariables implements EnvironmentVariableResolver {
        @Override
        public Set<String> getAvailableEnvironmentVariables() {
            return Collections.emptySet();
        }

        @Override
        public String getEnvironmentVariable(String name) {
            return null;
        }
    }
}
