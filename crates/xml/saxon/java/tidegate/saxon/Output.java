package tidegate.saxon;

import java.util.Arrays;
import net.sf.saxon.str.Slice8;
import net.sf.saxon.str.Twine8;
import net.sf.saxon.str.UnicodeString;
import net.sf.saxon.str.UnicodeWriter;
import net.sf.saxon.str.WhitespaceString;

/** The result as bytes of UTF-8, within its bound. Characters come straight here, where Saxon has two buffers on the way. */
final class Output implements UnicodeWriter {
    /** Memory beyond this is given back between messages; `vm.rs` has the same number. */
    static final int KEPT_BYTES_MAX = 1 << 20;

    byte[] bytes = new byte[16 << 10];
    int length;
    private int max;

    void begin(int max) {
        this.max = max;
        length = 0;
        if (bytes.length > KEPT_BYTES_MAX) {
            bytes = new byte[16 << 10];
        }
    }

    @Override
    public void write(UnicodeString chars) {
        if (chars instanceof Twine8) {
            latin(((Twine8) chars).getByteArray(), 0, chars.length32());
        } else if (chars instanceof Slice8) {
            Slice8 slice = (Slice8) chars;
            latin(slice.getByteArray(), slice.getStart(), slice.getEnd());
        } else {
            write(chars.toString());
        }
    }

    @Override
    public void writeAscii(byte[] content) {
        write(content, 0, content.length);
    }

    @Override
    public void writeRepeatedAscii(byte character, int count) {
        room(count);
        Arrays.fill(bytes, length, length + count, character);
        length += count;
    }

    @Override
    public void write(String chars) {
        int end = chars.length();
        // Each takes a byte at least.
        room(end);
        for (int i = 0; i < end; i++) {
            char c = chars.charAt(i);
            if (c < 0x80) {
                byteOf(c);
            } else if (Character.isHighSurrogate(c) && i + 1 < end && Character.isLowSurrogate(chars.charAt(i + 1))) {
                writeCodePoint(Character.toCodePoint(c, chars.charAt(++i)));
            } else {
                writeCodePoint(c);
            }
        }
    }

    @Override
    public void writeCodePoint(int c) {
        if (c < 0x80) {
            byteOf(c);
        } else if (c < 0x800) {
            byteOf(0xc0 | c >> 6);
            byteOf(0x80 | c & 0x3f);
        } else if (c < 0x10000) {
            if (c >= Character.MIN_SURROGATE && c <= Character.MAX_SURROGATE) {
                throw new IllegalStateException("half of a character cannot be written");
            }
            byteOf(0xe0 | c >> 12);
            byteOf(0x80 | c >> 6 & 0x3f);
            byteOf(0x80 | c & 0x3f);
        } else {
            byteOf(0xf0 | c >> 18);
            byteOf(0x80 | c >> 12 & 0x3f);
            byteOf(0x80 | c >> 6 & 0x3f);
            byteOf(0x80 | c & 0x3f);
        }
    }

    void write(byte[] from, int start, int count) {
        room(count);
        System.arraycopy(from, start, bytes, length, count);
        length += count;
    }

    /** Writes with what markup needs escaped, as Saxon escapes it. */
    void escaped(UnicodeString chars, boolean attribute) throws java.io.IOException {
        if (chars instanceof Twine8) {
            escaped(((Twine8) chars).getByteArray(), 0, chars.length32(), attribute);
        } else if (chars instanceof Slice8) {
            Slice8 slice = (Slice8) chars;
            escaped(slice.getByteArray(), slice.getStart(), slice.getEnd(), attribute);
        } else if (chars instanceof WhitespaceString && !attribute) {
            ((WhitespaceString) chars).write(this);
        } else {
            escaped(chars.toString(), attribute);
        }
    }

    void escaped(String chars, boolean attribute) {
        int end = chars.length();
        int plain = 0;
        for (int i = 0; i < end; i++) {
            char c = chars.charAt(i);
            if (special(c, attribute)) {
                write(chars.substring(plain, i));
                escape(c);
                plain = i + 1;
            }
        }
        write(plain == 0 ? chars : chars.substring(plain));
    }

    /** Characters below 256, a byte each. */
    private void escaped(byte[] from, int start, int end, boolean attribute) {
        int plain = start;
        for (int i = start; i < end; i++) {
            int c = from[i] & 0xff;
            if (special(c, attribute)) {
                latin(from, plain, i);
                escape(c);
                plain = i + 1;
            }
        }
        latin(from, plain, end);
    }

    private static boolean special(int c, boolean attribute) {
        if (c >= 0x7f) {
            return c < 0xa0 || c == 0x2028;
        }
        switch (c) {
            case '\n':
            case '\t':
            case '"':
                return attribute;
            case '<':
            case '>':
            case '&':
                return true;
            default:
                return c < ' ';
        }
    }

    private void escape(int c) {
        switch (c) {
            case '<':
                write("&lt;");
                break;
            case '>':
                write("&gt;");
                break;
            case '&':
                write("&amp;");
                break;
            case '"':
                write("&#34;");
                break;
            case '\n':
                write("&#xA;");
                break;
            case '\r':
                write("&#xD;");
                break;
            default:
                write("&#x" + Integer.toHexString(c) + ';');
                break;
        }
    }

    private void latin(byte[] from, int start, int end) {
        room(end - start);
        int at = length;
        for (int i = start; i < end; i++) {
            if (from[i] < 0) {
                length = at;
                for (; i < end; i++) {
                    writeCodePoint(from[i] & 0xff);
                }
                return;
            }
            bytes[at++] = from[i];
        }
        length = at;
    }

    void byteOf(int b) {
        if (length == bytes.length || length >= max) {
            room(1);
        }
        bytes[length++] = (byte) b;
    }

    private void room(int count) {
        if (count > max - length) {
            throw new Full();
        }
        if (count > bytes.length - length) {
            long grown = Math.max((long) bytes.length * 2, (long) length + count);
            bytes = Arrays.copyOf(bytes, (int) Math.min(grown, max));
        }
    }

    /**
     * The result has outgrown its bound. It is an error, since Saxon takes an exception for a mistake of its own: each template on
     * the way up writes it down with all that it has passed.
     */
    static final class Full extends Error {
        private static final long serialVersionUID = 1;

        Full() {
            super(null, null, false, false);
        }
    }
}
