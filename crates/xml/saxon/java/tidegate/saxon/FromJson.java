package tidegate.saxon;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import net.sf.saxon.event.Builder;
import net.sf.saxon.event.ReceiverOption;
import net.sf.saxon.expr.XPathContext;
import net.sf.saxon.expr.parser.Loc;
import net.sf.saxon.ma.json.JsonHandler;
import net.sf.saxon.ma.json.JsonParser;
import net.sf.saxon.ma.json.JsonToXMLFn;
import net.sf.saxon.ma.map.MapItem;
import net.sf.saxon.om.AttributeInfo;
import net.sf.saxon.om.AttributeMap;
import net.sf.saxon.om.Durability;
import net.sf.saxon.om.EmptyAttributeMap;
import net.sf.saxon.om.FingerprintedQName;
import net.sf.saxon.om.Item;
import net.sf.saxon.om.NamePool;
import net.sf.saxon.om.NamespaceMap;
import net.sf.saxon.om.NamespaceUri;
import net.sf.saxon.om.NodeInfo;
import net.sf.saxon.om.NodeName;
import net.sf.saxon.om.Sequence;
import net.sf.saxon.om.SingletonAttributeMap;
import net.sf.saxon.str.Slice8;
import net.sf.saxon.str.StringView;
import net.sf.saxon.str.UnicodeString;
import net.sf.saxon.trans.XPathException;
import net.sf.saxon.type.AnySimpleType;
import net.sf.saxon.type.Untyped;
import net.sf.saxon.value.AtomicValue;

/**
 * `json-to-xml` without options: what is read is told straight to the tree. It is read by `JsonText`; at whatever that does not
 * know, Saxon's parser begins anew.
 */
final class FromJson extends JsonToXMLFn {
    /** Of one pool; made anew where a thread sees none, which all of them make alike. */
    private Vocabulary vocabulary;

    static final class Vocabulary {
        final NamePool pool;
        final NodeName map, array, string, number, bool, nil, key;

        Vocabulary(NamePool pool) {
            this.pool = pool;
            map = name(NamespaceUri.FN, "map");
            array = name(NamespaceUri.FN, "array");
            string = name(NamespaceUri.FN, "string");
            number = name(NamespaceUri.FN, "number");
            bool = name(NamespaceUri.FN, "boolean");
            nil = name(NamespaceUri.FN, "null");
            key = name(NamespaceUri.NULL, "key");
        }

        private NodeName name(NamespaceUri uri, String local) {
            FingerprintedQName name = new FingerprintedQName("", uri, local);
            name.obtainFingerprint(pool);
            return name;
        }
    }

    @Override
    public Sequence call(XPathContext context, Sequence[] arguments) throws XPathException {
        Item text = arguments[0].head();
        if (text == null || getArity() != 1) {
            return super.call(context, arguments);
        }
        JsonText plain = JsonText.of(text.getUnicodeStringValue());
        if (plain != null) {
            Builder builder = begun(context);
            if (plain.tell(new Teller(names(context), builder))) {
                return ended(builder);
            }
        }
        // An argument is evaluated once.
        return super.call(context, new Sequence[] {text});
    }

    @Override
    protected Item eval(String input, MapItem options, XPathContext context) throws XPathException {
        if (options != null) {
            return super.eval(input, options, context);
        }
        Builder builder = begun(context);
        Teller teller = new Teller(names(context), builder);
        teller.setContext(context);
        new JsonParser().parse(input, JsonParser.DUPLICATES_RETAINED, teller, context);
        return ended(builder);
    }

    private Vocabulary names(XPathContext context) {
        NamePool pool = context.getConfiguration().getNamePool();
        Vocabulary names = vocabulary;
        if (names == null || names.pool != pool) {
            names = new Vocabulary(pool);
            vocabulary = names;
        }
        return names;
    }

    private Builder begun(XPathContext context) throws XPathException {
        Builder builder = context.getController().makeBuilder();
        builder.setSystemId(getStaticBaseUriString());
        builder.setTiming(false);
        builder.setDurability(Durability.TEMPORARY);
        builder.open();
        builder.startDocument(ReceiverOption.NONE);
        return builder;
    }

    private static NodeInfo ended(Builder builder) throws XPathException {
        builder.endDocument();
        builder.close();
        return builder.getCurrentRoot();
    }

    /** The characters of a text, a byte each where they are ASCII. */
    static UnicodeString chars(String text) {
        for (int i = 0; i < text.length(); i++) {
            if (text.charAt(i) >= 0x80) {
                return StringView.of(text);
            }
        }
        return new Slice8(text.getBytes(StandardCharsets.ISO_8859_1), 0, text.length());
    }

    static final class Teller extends JsonHandler {
        private static final NamespaceMap SCOPE = NamespaceMap.of("", NamespaceUri.FN);

        final Vocabulary names;
        private final Builder to;
        /** Those of the maps that are open, whose values are still to come. */
        private final ArrayList<String> keys = new ArrayList<>(4);
        private boolean[] inMap = new boolean[16];
        private int depth;

        Teller(Vocabulary names, Builder to) {
            this.names = names;
            this.to = to;
        }

        @Override
        public boolean setKey(String unescaped, String reescaped) {
            keys.add(reescaped);
            return false;
        }

        /** What XML has no place for is replaced. */
        @Override
        public String reEscape(String value) throws XPathException {
            for (int i = 0; i < value.length(); i++) {
                char c = value.charAt(i);
                if (c < ' ' && c != '\n' && c != '\t' && c != '\r' || c >= Character.MIN_SURROGATE) {
                    return super.reEscape(value);
                }
            }
            return value;
        }

        private void start(NodeName name) throws XPathException {
            AttributeMap attributes = EmptyAttributeMap.getInstance();
            if (depth > 0 && inMap[depth - 1]) {
                String key = keys.remove(keys.size() - 1);
                attributes = SingletonAttributeMap.of(
                        new AttributeInfo(names.key, AnySimpleType.getInstance(), key, Loc.NONE, ReceiverOption.NONE));
            }
            to.startElement(name, Untyped.getInstance(), attributes, SCOPE, Loc.NONE, ReceiverOption.NAMESPACE_OK);
        }

        private void open(NodeName name, boolean map) throws XPathException {
            start(name);
            if (depth == inMap.length) {
                inMap = Arrays.copyOf(inMap, depth * 2);
            }
            inMap[depth++] = map;
        }

        private void close() throws XPathException {
            depth--;
            to.endElement();
        }

        private void value(NodeName name, String text) throws XPathException {
            value(name, text.isEmpty() ? null : chars(text));
        }

        /** A value that is not to be taken apart. Null: an empty one. */
        void value(NodeName name, UnicodeString text) throws XPathException {
            start(name);
            if (text != null) {
                to.characters(text, Loc.NONE, ReceiverOption.NONE);
            }
            to.endElement();
        }

        @Override
        public void startArray() throws XPathException {
            open(names.array, false);
        }

        @Override
        public void endArray() throws XPathException {
            close();
        }

        @Override
        public void startMap() throws XPathException {
            open(names.map, true);
        }

        @Override
        public void endMap() throws XPathException {
            close();
        }

        @Override
        public void writeNumeric(String text, AtomicValue parsed) throws XPathException {
            value(names.number, text);
        }

        @Override
        public void writeString(String text) throws XPathException {
            value(names.string, reEscape(text));
        }

        @Override
        public void writeBoolean(boolean value) throws XPathException {
            value(names.bool, value ? "true" : "false");
        }

        @Override
        public void writeNull() throws XPathException {
            value(names.nil, "");
        }
    }
}
