package tidegate.saxon;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import net.sf.saxon.s9api.XmlProcessingError;

/** Uses what messages will use, so that the archive of classes has it. Run once, by `scripts/saxon.sh`. */
final class Warm {
    private static final String XSL = "http://www.w3.org/1999/XSL/Transform";

    private static final String FROM_JSON = "<xsl:stylesheet version='3.0' xmlns:xsl='" + XSL + "'"
            + " xmlns:f='http://www.w3.org/2005/xpath-functions' exclude-result-prefixes='f'>"
            + "<xsl:param name='p' as='xs:string' xmlns:xs='http://www.w3.org/2001/XMLSchema' select='\"\"'/>"
            + "<xsl:mode on-no-match='shallow-copy'/><xsl:output indent='yes'/>"
            + "<xsl:template match='/'><r a='{$p}'><xsl:apply-templates select='json-to-xml(.)//f:number[@key=\"a\"]'/></r></xsl:template>"
            + "<xsl:template match='f:number'><n xmlns='u'><xsl:value-of select='. + 1'/></n></xsl:template>"
            + "</xsl:stylesheet>";

    private static final String TO_JSON = "<xsl:stylesheet version='3.0' xmlns:xsl='" + XSL + "'>"
            + "<xsl:output method='text'/><xsl:strip-space elements='*'/>"
            + "<xsl:template match='/*'><xsl:variable name='m'><map xmlns='http://www.w3.org/2005/xpath-functions'>"
            + "<number key='n'><xsl:value-of select='count(*)'/></number></map></xsl:variable>"
            + "<xsl:value-of select='xml-to-json($m)'/></xsl:template></xsl:stylesheet>";

    /** The events of `<r> <n/></r>`, see `Feed`. */
    private static final byte[] EVENTS = {1, 0, 0, 1, 'r', 0, 0, 3, 1, ' ', 1, 0, 0, 1, 'n', 0, 0, 2, 2};

    private Warm() {}

    public static void main(String[] arguments) throws Exception {
        Slot slot = new Slot();
        run(slot, FROM_JSON, "{\"a\":1}".getBytes(StandardCharsets.UTF_8), true);
        run(slot, TO_JSON, EVENTS, false);
        Machine.heapUsed();
    }

    private static void run(Slot slot, String text, byte[] message, boolean json) throws Exception {
        Map<String, byte[]> modules = new LinkedHashMap<>();
        modules.put("tidegate:/warm.xsl", text.getBytes(StandardCharsets.UTF_8));
        List<XmlProcessingError> wrong = new ArrayList<>();
        Sheet sheet = Sheet.compile(modules, Map.of("p", "v"), wrong);
        System.arraycopy(message, 0, slot.reserve(message.length), 0, message.length);
        long ended = slot.run(sheet, message.length, json, 1 << 20);
        if (ended >> 32 != Slot.DONE) {
            throw new IllegalStateException(new String(slot.out, 0, (int) ended, StandardCharsets.UTF_8));
        }
    }
}
