package tidegate.saxon;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import net.sf.saxon.om.CodedName;
import net.sf.saxon.om.NamePool;
import net.sf.saxon.om.NamespaceUri;
import net.sf.saxon.om.NodeName;

/**
 * Names of one compiled stylesheet's messages, by their bytes: a name that was met before costs no text and no lock. Shared by
 * all threads; an entry that is lost in a race is made again.
 */
final class Names {
    /** A power of two. Messages of one service have some dozens of names; what collides is made again. */
    private static final int ENTRIES = 1024;

    private final NamePool pool;
    private final Entry[] entries = new Entry[ENTRIES];
    private final Spelling[] spellings = new Spelling[ENTRIES];

    /** The highest number that a name got. */
    private volatile int highest;

    private static final class Entry {
        final NamespaceUri uri;
        final byte[] bytes;
        final int prefix;
        final NodeName name;

        Entry(NamespaceUri uri, byte[] bytes, int prefix, NodeName name) {
            this.uri = uri;
            this.bytes = bytes;
            this.prefix = prefix;
            this.name = name;
        }
    }

    private static final class Spelling {
        final int number;
        final String prefix;
        final byte[] bytes;

        Spelling(int number, String prefix, byte[] bytes) {
            this.number = number;
            this.prefix = prefix;
            this.bytes = bytes;
        }
    }

    Names(NamePool pool) {
        this.pool = pool;
    }

    int highest() {
        return highest;
    }

    /** Takes the next number, to see how far they have come. */
    void probe() {
        of(NamespaceUri.NULL, "", "probe-" + (highest + 1));
    }

    NodeName of(NamespaceUri uri, String prefix, String local) {
        int number = pool.allocateFingerprint(uri, local);
        if (number > highest) {
            highest = number;
        }
        return new CodedName(number, prefix, pool);
    }

    /** The name whose prefix and local part stand in `in`. */
    NodeName of(NamespaceUri uri, byte[] in, int prefixFrom, int prefix, int localFrom, int local) {
        int hash = 31 * System.identityHashCode(uri) + prefix;
        for (int i = localFrom; i < localFrom + local; i++) {
            hash = 31 * hash + in[i];
        }
        int place = (hash ^ hash >>> 15) & ENTRIES - 1;
        Entry entry = entries[place];
        if (entry != null && entry.uri == uri && entry.prefix == prefix
                && Arrays.equals(entry.bytes, 0, prefix, in, prefixFrom, prefixFrom + prefix)
                && Arrays.equals(entry.bytes, prefix, entry.bytes.length, in, localFrom, localFrom + local)) {
            return entry.name;
        }
        byte[] bytes = Arrays.copyOfRange(in, prefixFrom, prefixFrom + prefix + local);
        System.arraycopy(in, localFrom, bytes, prefix, local);
        NodeName name = of(uri, text(bytes, 0, prefix), text(bytes, prefix, local));
        entries[place] = new Entry(uri, bytes, prefix, name);
        return name;
    }

    /** How a name is written, with its prefix. */
    byte[] spelled(NodeName name) {
        if (!name.hasFingerprint()) {
            return name.getDisplayName().getBytes(StandardCharsets.UTF_8);
        }
        int number = name.getFingerprint();
        String prefix = name.getPrefix();
        int place = (number ^ number >>> 10) & ENTRIES - 1;
        Spelling known = spellings[place];
        if (known == null || known.number != number || !known.prefix.equals(prefix)) {
            known = new Spelling(number, prefix, name.getDisplayName().getBytes(StandardCharsets.UTF_8));
            spellings[place] = known;
        }
        return known.bytes;
    }

    private static String text(byte[] bytes, int from, int length) {
        return new String(bytes, from, length, StandardCharsets.UTF_8);
    }
}
