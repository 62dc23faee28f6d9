package tidegate.saxon;

import java.util.Arrays;
import java.util.HashSet;
import net.sf.saxon.event.Outputter;
import net.sf.saxon.expr.XPathContext;
import net.sf.saxon.expr.parser.Loc;
import net.sf.saxon.ma.json.JsonReceiver;
import net.sf.saxon.ma.json.XMLToJsonFn;
import net.sf.saxon.om.AttributeInfo;
import net.sf.saxon.om.NamePool;
import net.sf.saxon.om.NamespaceUri;
import net.sf.saxon.om.NodeInfo;
import net.sf.saxon.om.Sequence;
import net.sf.saxon.str.UniStringConsumer;
import net.sf.saxon.str.UnicodeString;
import net.sf.saxon.trans.XPathException;
import net.sf.saxon.tree.tiny.TinyNodeImpl;
import net.sf.saxon.tree.tiny.TinyTextImpl;
import net.sf.saxon.tree.tiny.TinyTree;
import net.sf.saxon.type.Type;
import net.sf.saxon.value.DoubleValue;
import net.sf.saxon.value.EmptySequence;
import net.sf.saxon.value.StringToDouble11;
import net.sf.saxon.value.StringValue;
import net.sf.saxon.value.Whitespace;

/**
 * `xml-to-json` without options, for what is written as it should be. At whatever is not, Saxon's own begins anew and says what
 * is wrong: nothing has been written by then.
 */
final class ToJson extends XMLToJsonFn {
    /** What is deeper is Saxon's. No message of a service is. */
    private static final int DEPTH_MAX = 64;

    private static final String[] NAMES = {"map", "array", "string", "number", "boolean", "null"};
    private static final int NONE = -1, MAP = 0, ARRAY = 1, STRING = 2, NUMBER = 3, BOOLEAN = 4;

    /** Of one pool; made anew where a thread sees none, which all of them make alike. */
    private Vocabulary vocabulary;

    private static final class Vocabulary {
        final NamePool pool;
        final int[] numbers = new int[NAMES.length];
        final int key;

        Vocabulary(NamePool pool) {
            this.pool = pool;
            for (int i = 0; i < NAMES.length; i++) {
                numbers[i] = pool.allocateFingerprint(NamespaceUri.FN, NAMES[i]);
            }
            key = pool.allocateFingerprint(NamespaceUri.NULL, "key");
        }

        int kind(int number) {
            for (int i = 0; i < numbers.length; i++) {
                if (numbers[i] == number) {
                    return i;
                }
            }
            return NONE;
        }
    }

    @Override
    public Sequence call(XPathContext context, Sequence[] arguments) throws XPathException {
        NodeInfo node = (NodeInfo) arguments[0].head();
        String text = written(node);
        return text == null ? super.call(context, again(node)) : new StringValue(text);
    }

    @Override
    public void process(Outputter to, XPathContext context, Sequence[] arguments) throws XPathException {
        NodeInfo node = (NodeInfo) arguments[0].head();
        String text = written(node);
        if (text == null) {
            super.process(to, context, again(node));
            return;
        }
        UniStringConsumer consumer = to.getStringReceiver(false, Loc.NONE);
        consumer.open();
        consumer.accept(FromJson.chars(text));
        consumer.close();
    }

    /** An argument is evaluated once. */
    private static Sequence[] again(NodeInfo node) {
        return new Sequence[] {node == null ? EmptySequence.getInstance() : node};
    }

    private String written(NodeInfo node) {
        if (!(node instanceof TinyNodeImpl)) {
            return null;
        }
        TinyTree tree = ((TinyNodeImpl) node).getTree();
        NamePool pool = tree.getNamePool();
        Vocabulary names = vocabulary;
        if (names == null || names.pool != pool) {
            names = new Vocabulary(pool);
            vocabulary = names;
        }
        Walk walk = new Walk(tree, names);
        return walk.passes(((TinyNodeImpl) node).getNodeNumber()) ? walk.out.toString() : null;
    }

    /** One pass over a tree. What gives a boolean gives false where Saxon has to look. */
    private static final class Walk {
        final StringBuilder out = new StringBuilder(256);
        private final TinyTree tree;
        private final Vocabulary names;
        private int level;
        private final int[] kinds = new int[DEPTH_MAX];
        private final int[] depths = new int[DEPTH_MAX];
        private final boolean[] filled = new boolean[DEPTH_MAX];
        private HashSet<?>[] keys = new HashSet<?>[4];
        private String text = "";
        private int roots;

        Walk(TinyTree tree, Vocabulary names) {
            this.tree = tree;
            this.names = names;
        }

        boolean passes(int first) {
            byte[] kinds = tree.getNodeKindArray();
            short[] depths = tree.getNodeDepthArray();
            int end = tree.getNumberOfNodes();
            for (int node = first; node < end && (node == first || depths[node] > depths[first]); node++) {
                int kind = kinds[node];
                if (kind == Type.PARENT_POINTER) {
                    continue;
                }
                if (!close(depths[node])) {
                    return false;
                }
                boolean good = true;
                if (kind == Type.ELEMENT) {
                    good = open(node, depths[node]);
                } else if (kind == Type.TEXTUAL_ELEMENT) {
                    good = open(node, depths[node]) && characters(TinyTextImpl.getStringValue(tree, node));
                } else if (kind == Type.TEXT) {
                    good = characters(TinyTextImpl.getStringValue(tree, node));
                } else if (kind == Type.WHITESPACE_TEXT) {
                    good = !scalar();
                }
                if (!good) {
                    return false;
                }
            }
            return close(0) && roots == 1;
        }

        private boolean scalar() {
            return level > 0 && kinds[level - 1] > ARRAY;
        }

        private boolean open(int node, int depth) {
            int kind = names.kind(tree.getNameCodeArray()[node] & NamePool.FP_MASK);
            if (kind == NONE || scalar() || level == DEPTH_MAX) {
                return false;
            }
            boolean attributes = tree.getNodeKindArray()[node] == Type.ELEMENT && tree.getAlphaArray()[node] >= 0;
            boolean inMap = level > 0 && kinds[level - 1] == MAP;
            if (attributes != inMap) {
                return false;
            }
            if (level == 0) {
                roots++;
            } else {
                if (filled[level - 1]) {
                    out.append(',');
                }
                filled[level - 1] = true;
            }
            if (inMap && !key(node)) {
                return false;
            }
            if (kind <= ARRAY) {
                out.append(kind == MAP ? '{' : '[');
            }
            kinds[level] = kind;
            depths[level] = depth;
            filled[level++] = false;
            text = "";
            return true;
        }

        @SuppressWarnings("unchecked")
        private boolean key(int node) {
            String key = null;
            for (AttributeInfo attribute : tree.getNode(node).attributes()) {
                if (key != null || attribute.getNodeName().obtainFingerprint(names.pool) != names.key) {
                    return false;
                }
                key = attribute.getValue();
            }
            int map = level - 1;
            if (map >= keys.length) {
                keys = Arrays.copyOf(keys, DEPTH_MAX);
            }
            if (keys[map] == null) {
                keys[map] = new HashSet<String>();
            }
            if (key == null || !((HashSet<String>) keys[map]).add(key)) {
                return false;
            }
            quote(key);
            out.append(':');
            return true;
        }

        private boolean characters(UnicodeString chars) {
            if (!scalar()) {
                return Whitespace.isAllWhite(chars);
            }
            text = text.isEmpty() ? chars.toString() : text + chars;
            return true;
        }

        /** Ends what is at this depth or below. */
        private boolean close(int depth) {
            while (level > 0 && depths[level - 1] >= depth) {
                switch (kinds[--level]) {
                    case MAP:
                        out.append('}');
                        if (level < keys.length && keys[level] != null) {
                            keys[level].clear();
                        }
                        break;
                    case ARRAY:
                        out.append(']');
                        break;
                    case STRING:
                        quote(text);
                        break;
                    case NUMBER:
                        if (!number()) {
                            return false;
                        }
                        break;
                    case BOOLEAN:
                        if (!text.equals("true") && !text.equals("false")) {
                            return false;
                        }
                        out.append(text);
                        break;
                    default:
                        if (!text.isEmpty()) {
                            return false;
                        }
                        out.append("null");
                        break;
                }
            }
            return true;
        }

        private boolean number() {
            if (small(text)) {
                out.append(text);
                return true;
            }
            try {
                double value = StringToDouble11.getInstance().stringToNumber(FromJson.chars(text));
                if (Double.isNaN(value) || Double.isInfinite(value)) {
                    return false;
                }
                out.append(new DoubleValue(value).getStringValue());
                return true;
            } catch (NumberFormatException error) {
                return false;
            }
        }

        /** An integer that a double is written as. */
        private static boolean small(String text) {
            int length = text.length();
            if (length == 0 || length > 6 || text.charAt(0) == '0' && length > 1) {
                return false;
            }
            for (int i = 0; i < length; i++) {
                if (text.charAt(i) < '0' || text.charAt(i) > '9') {
                    return false;
                }
            }
            return true;
        }

        private void quote(String value) {
            boolean plain = true;
            for (int i = 0; i < value.length() && plain; i++) {
                char c = value.charAt(i);
                plain = c >= ' ' && c != '"' && c != '\\' && c != '/' && (c < 0x7f || c > 0x9f);
            }
            out.append('"').append(plain ? value : escaped(value)).append('"');
        }

        private static String escaped(String value) {
            try {
                return JsonReceiver.escape(value, false, false, c -> c < 31 || c >= 127 && c <= 159);
            } catch (XPathException error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
