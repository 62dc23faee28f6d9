package tidegate.saxon;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import net.sf.saxon.event.PipelineConfiguration;
import net.sf.saxon.event.Receiver;
import net.sf.saxon.expr.parser.Loc;
import net.sf.saxon.om.AttributeInfo;
import net.sf.saxon.om.AttributeMap;
import net.sf.saxon.om.EmptyAttributeMap;
import net.sf.saxon.om.NamespaceMap;
import net.sf.saxon.om.NamespaceUri;
import net.sf.saxon.om.NodeName;
import net.sf.saxon.om.SequenceTool;
import net.sf.saxon.str.Slice8;
import net.sf.saxon.str.StringView;
import net.sf.saxon.str.UnicodeString;
import net.sf.saxon.trans.XPathException;
import net.sf.saxon.type.BuiltInAtomicType;
import net.sf.saxon.type.Untyped;

/**
 * A document that the gateway's own parser has read, told to Saxon. Nothing here parses XML: the bytes are the events of
 * `saxon::Feed`, which says what they look like. They come from the other half of this program, so they are believed.
 */
final class Feed {
    /** Events, as `feed.rs` numbers them. */
    private static final int START = 1, END = 2, TEXT = 3, COMMENT = 4, INSTRUCTION = 5, NAMESPACE = 6;

    private final byte[] in;
    private final int end;
    private final Names names;
    private int at;
    private final ArrayList<NamespaceUri> uris = new ArrayList<>(8);

    private Feed(byte[] in, int length, Names names) {
        this.in = in;
        this.end = length;
        this.names = names;
    }

    /** Tells a whole document. */
    static void tell(byte[] in, int length, Names names, Receiver to, PipelineConfiguration pipe)
            throws XPathException {
        to.setPipelineConfiguration(pipe);
        to.open();
        to.startDocument(0);
        new Feed(in, length, names).events(to);
        to.endDocument();
        to.close();
    }

    /** Tells a text as the only child of one element, which is how stylesheets find JSON. */
    static void wrap(byte[] in, int length, Names names, Receiver to, PipelineConfiguration pipe)
            throws XPathException {
        to.setPipelineConfiguration(pipe);
        to.open();
        to.startDocument(0);
        NodeName root = names.of(NamespaceUri.NULL, "", "InternalkongRoot");
        to.startElement(root, Untyped.getInstance(), EmptyAttributeMap.getInstance(),
                NamespaceMap.emptyMap(), Loc.NONE, 0);
        if (length > 0) {
            to.characters(text(in, 0, length), Loc.NONE, 0);
        }
        to.endElement();
        to.endDocument();
        to.close();
    }

    private void events(Receiver to) throws XPathException {
        NamespaceMap[] scopes = new NamespaceMap[16];
        int depth = 0;
        NamespaceMap scope = NamespaceMap.emptyMap();
        uris.add(NamespaceUri.NULL);
        while (at < end) {
            switch (in[at++]) {
                case START:
                    if (depth == scopes.length) {
                        scopes = java.util.Arrays.copyOf(scopes, depth * 2);
                    }
                    scopes[depth++] = scope;
                    scope = start(to, scope);
                    break;
                case END:
                    to.endElement();
                    scope = scopes[--depth];
                    break;
                case TEXT:
                    to.characters(text(), Loc.NONE, 0);
                    break;
                case COMMENT:
                    to.comment(text(), Loc.NONE, 0);
                    break;
                case INSTRUCTION:
                    String target = text().toString();
                    to.processingInstruction(target, text(), Loc.NONE, 0);
                    break;
                case NAMESPACE:
                    uris.add(NamespaceUri.of(text().toString()));
                    break;
                default:
                    throw new XPathException("an event of another version of the gateway");
            }
        }
    }

    private NamespaceMap start(Receiver to, NamespaceMap outer) throws XPathException {
        NodeName name = name();
        NamespaceMap scope = outer;
        for (int declared = number(); declared > 0; declared--) {
            String prefix = text().toString();
            scope = scope.put(prefix, uris.get(number()));
        }
        int attributes = number();
        AttributeMap map = EmptyAttributeMap.getInstance();
        if (attributes > 0) {
            ArrayList<AttributeInfo> list = new ArrayList<>(attributes);
            for (; attributes > 0; attributes--) {
                NodeName attribute = name();
                String value = text().toString();
                list.add(new AttributeInfo(attribute, BuiltInAtomicType.UNTYPED_ATOMIC, value, Loc.NONE, 0));
            }
            map = SequenceTool.attributeMapFromList(list);
        }
        to.startElement(name, Untyped.getInstance(), map, scope, Loc.NONE, 0);
        return scope;
    }

    private NodeName name() {
        NamespaceUri uri = uris.get(number());
        int prefix = number();
        int from = at;
        at += prefix;
        int local = number();
        NodeName name = names.of(uri, in, from, prefix, at, local);
        at += local;
        return name;
    }

    private UnicodeString text() {
        int length = number();
        UnicodeString text = text(in, at, length);
        at += length;
        return text;
    }

    /** Seven bits a byte, the lowest first; the high bit says that more follow. */
    private int number() {
        int value = 0;
        for (int shift = 0; ; shift += 7) {
            byte next = in[at++];
            value |= (next & 0x7f) << shift;
            if (next >= 0) {
                return value;
            }
        }
    }

    /** The same, elsewhere: `place` is moved behind it. */
    static int number(byte[] in, int[] place) {
        int value = 0;
        for (int shift = 0; ; shift += 7) {
            byte next = in[place[0]++];
            value |= (next & 0x7f) << shift;
            if (next >= 0) {
                return value;
            }
        }
    }

    private static UnicodeString text(byte[] in, int from, int length) {
        int to = from + length;
        for (int i = from; i < to; i++) {
            if (in[i] < 0) {
                return StringView.of(new String(in, from, length, StandardCharsets.UTF_8)).tidy();
            }
        }
        // What is built of it copies, so that the array may be used again.
        return new Slice8(in, from, to);
    }
}
