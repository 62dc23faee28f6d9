package tidegate.saxon;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import net.sf.saxon.om.NodeName;
import net.sf.saxon.str.Slice8;
import net.sf.saxon.str.Twine8;
import net.sf.saxon.str.UnicodeString;
import net.sf.saxon.trans.XPathException;

/**
 * A JSON text as most of them are: an object or an array in ASCII, not deep, with the escapes that one sees. It is read in one
 * pass over its bytes, with no text made of what is no key. What else there is, mistakes before all, it leaves to Saxon.
 */
final class JsonText {
    /** What is deeper is Saxon's. */
    private static final int DEPTH_MAX = 64;

    private final byte[] in;
    private final int end;
    private int at;

    private final boolean[] inMap = new boolean[DEPTH_MAX];
    private int depth;

    /** The string that was read: bytes of the text itself, or of `unescaped`. */
    private byte[] string;
    private int from;
    private int to;
    private byte[] unescaped = new byte[0];

    private JsonText(byte[] in, int from, int end) {
        this.in = in;
        this.at = from;
        this.end = end;
    }

    /** Null: its characters are not a byte each. */
    static JsonText of(UnicodeString chars) {
        if (chars instanceof Slice8) {
            Slice8 slice = (Slice8) chars;
            return new JsonText(slice.getByteArray(), slice.getStart(), slice.getEnd());
        }
        if (chars instanceof Twine8) {
            return new JsonText(((Twine8) chars).getByteArray(), 0, chars.length32());
        }
        return null;
    }

    /** Tells all of it. False: Saxon has to begin anew. */
    boolean tell(FromJson.Teller teller) throws XPathException {
        int first = next();
        if (first != '{' && first != '[') {
            return false;
        }
        at--;
        do {
            if (!value(teller)) {
                return false;
            }
        } while (depth > 0);
        return next() < 0;
    }

    /** One value with its key, or the beginning of one that has others in it, and the ends of those that end behind it. */
    private boolean value(FromJson.Teller teller) throws XPathException {
        if (depth > 0 && inMap[depth - 1] && !key(teller)) {
            return false;
        }
        int c = next();
        if (c == '{' || c == '[') {
            return open(teller, c == '{') && (!isClosed() || close(teller) && further(teller));
        }
        return scalar(teller, c) && further(teller);
    }

    private boolean key(FromJson.Teller teller) {
        if (next() != '"' || !string()) {
            return false;
        }
        String key = new String(string, from, to - from, StandardCharsets.ISO_8859_1);
        teller.setKey(key, key);
        return next() == ':';
    }

    private boolean open(FromJson.Teller teller, boolean map) throws XPathException {
        if (depth == DEPTH_MAX) {
            return false;
        }
        inMap[depth++] = map;
        if (map) {
            teller.startMap();
        } else {
            teller.startArray();
        }
        return true;
    }

    /** The one that has just begun has nothing in it. */
    private boolean isClosed() {
        int c = next();
        at--;
        return c == '}' || c == ']';
    }

    /** The end of the innermost, which is next. */
    private boolean close(FromJson.Teller teller) throws XPathException {
        boolean map = inMap[--depth];
        if (next() != (map ? '}' : ']')) {
            return false;
        }
        if (map) {
            teller.endMap();
        } else {
            teller.endArray();
        }
        return true;
    }

    /** What is behind a value: ends, and a comma if there is another value. */
    private boolean further(FromJson.Teller teller) throws XPathException {
        while (depth > 0) {
            if (next() == ',') {
                return true;
            }
            at--;
            if (!close(teller)) {
                return false;
            }
        }
        return true;
    }

    private boolean scalar(FromJson.Teller teller, int c) throws XPathException {
        switch (c) {
            case '"':
                return string() && told(teller, teller.names.string);
            case 't':
                return word("rue") && told(teller, true);
            case 'f':
                return word("alse") && told(teller, false);
            case 'n':
                if (!word("ull")) {
                    return false;
                }
                teller.writeNull();
                return true;
            default:
                return number(c) && told(teller, teller.names.number);
        }
    }

    private boolean told(FromJson.Teller teller, NodeName name) throws XPathException {
        teller.value(name, from == to ? null : new Slice8(string, from, to));
        return true;
    }

    private static boolean told(FromJson.Teller teller, boolean value) throws XPathException {
        teller.writeBoolean(value);
        return true;
    }

    /** The next character that is no white space; less than zero: there is none. It is behind it afterwards in either case. */
    private int next() {
        while (at < end) {
            byte c = in[at++];
            if (c != ' ' && c != '\n' && c != '\r' && c != '\t') {
                return c < 0 ? 0 : c;
            }
        }
        at++;
        return -1;
    }

    private boolean word(String rest) {
        for (int i = 0; i < rest.length(); i++, at++) {
            if (at >= end || in[at] != rest.charAt(i)) {
                return false;
            }
        }
        return true;
    }

    /** The rest of a string whose quote was read. */
    private boolean string() {
        int start = at;
        while (at < end) {
            byte c = in[at++];
            if (c == '"') {
                string = in;
                from = start;
                to = at - 1;
                return true;
            }
            if (c == '\\') {
                at--;
                return escaped(start);
            }
            if (c < ' ' || c == 0x7f) {
                return false;
            }
        }
        return false;
    }

    /** The rest of a string at its first escape. */
    private boolean escaped(int start) {
        if (unescaped.length < end - start) {
            unescaped = new byte[end - start];
        }
        int length = at - start;
        System.arraycopy(in, start, unescaped, 0, length);
        while (at < end) {
            int c = in[at++];
            if (c == '"') {
                string = unescaped;
                from = 0;
                to = length;
                return true;
            }
            if (c == '\\') {
                c = at < end ? meant(in[at++]) : 0;
                if (c == 0) {
                    return false;
                }
            } else if (c < ' ' || c == 0x7f) {
                return false;
            }
            unescaped[length++] = (byte) c;
        }
        return false;
    }

    /** What an escape means; 0: that is for Saxon to say. */
    private static int meant(byte c) {
        switch (c) {
            case '"':
            case '\\':
            case '/':
                return c;
            case 'n':
                return '\n';
            case 'r':
                return '\r';
            case 't':
                return '\t';
            default:
                return 0;
        }
    }

    /** The rest of a number that begins with `c`. */
    private boolean number(int c) {
        string = in;
        from = at - 1;
        if (c == '-') {
            c = at < end ? in[at++] : 0;
        }
        if (c < '0' || c > '9') {
            return false;
        }
        if (c != '0') {
            digits();
        }
        if (at < end && in[at] == '.') {
            at++;
            if (digits() == 0) {
                return false;
            }
        }
        if (at < end && (in[at] == 'e' || in[at] == 'E')) {
            at++;
            if (at < end && (in[at] == '+' || in[at] == '-')) {
                at++;
            }
            if (digits() == 0) {
                return false;
            }
        }
        to = at;
        return true;
    }

    private int digits() {
        int start = at;
        while (at < end && in[at] >= '0' && in[at] <= '9') {
            at++;
        }
        return at - start;
    }
}
