package tidegate.saxon;

import java.nio.charset.StandardCharsets;
import java.util.Properties;
import java.util.Set;
import javax.xml.transform.OutputKeys;
import net.sf.saxon.lib.SaxonOutputKeys;
import net.sf.saxon.serialize.SerializationProperties;

/** What a stylesheet's `xsl:output` asks for, looked at once, and who writes it: we where it is usual, or Saxon. */
final class Form {
    /** By the method; one that is not said is decided by the first element. */
    enum Writer { SAXON, XML, UNDECIDED, TEXT }

    /** What we know to write. Whatever else is asked for is Saxon's. */
    private static final Set<String> KNOWN = Set.of(OutputKeys.METHOD, OutputKeys.ENCODING, OutputKeys.INDENT,
            OutputKeys.OMIT_XML_DECLARATION, OutputKeys.VERSION, OutputKeys.MEDIA_TYPE,
            SaxonOutputKeys.STYLESHEET_VERSION);

    /** As the stylesheet has them: what is not these is another result's. */
    final Properties asked;
    /** What is ours to say: results are in UTF-8 whatever the stylesheet says, and labelled so. */
    final SerializationProperties ours;
    final Writer writer;
    final boolean indent;
    final byte[] declaration;

    Form(SerializationProperties primary) {
        asked = primary.getProperties();
        String encoding = asked.getProperty(OutputKeys.ENCODING);
        boolean utf8 = encoding == null || encoding.equalsIgnoreCase("utf-8");
        Properties said = new Properties();
        if (!utf8) {
            said.setProperty(OutputKeys.ENCODING, "UTF-8");
        }
        ours = new SerializationProperties(said);
        writer = primary.getValidationFactory() == null ? writer(asked) : Writer.SAXON;
        indent = "yes".equals(asked.getProperty(OutputKeys.INDENT));
        String written = utf8 && encoding != null ? encoding : "UTF-8";
        String text = "<?xml version=\"1.0\" encoding=\"" + written + "\"?>";
        boolean omitted = "yes".equals(asked.getProperty(OutputKeys.OMIT_XML_DECLARATION));
        declaration = (omitted ? "" : text).getBytes(StandardCharsets.US_ASCII);
    }

    private static Writer writer(Properties asked) {
        for (String name : asked.stringPropertyNames()) {
            if (!KNOWN.contains(name)) {
                return Writer.SAXON;
            }
        }
        boolean plain = one(asked, OutputKeys.VERSION, "1.0") && one(asked, OutputKeys.INDENT, "yes", "no")
                && one(asked, OutputKeys.OMIT_XML_DECLARATION, "yes", "no");
        String method = asked.getProperty(OutputKeys.METHOD);
        if (method == null) {
            return plain ? Writer.UNDECIDED : Writer.SAXON;
        }
        switch (method) {
            case "xml":
                return plain ? Writer.XML : Writer.SAXON;
            case "text":
                return Writer.TEXT;
            default:
                return Writer.SAXON;
        }
    }

    /** It is not said, or one of these. */
    private static boolean one(Properties asked, String name, String... values) {
        String value = asked.getProperty(name);
        return value == null || Set.of(values).contains(value);
    }
}
