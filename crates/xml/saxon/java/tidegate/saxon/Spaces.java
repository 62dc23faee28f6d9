package tidegate.saxon;

import java.lang.reflect.Field;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import net.sf.saxon.om.NamespaceUri;

/**
 * Namespaces that messages bring. Saxon keeps each that it ever met in a table of its own, so that somebody could fill the heap
 * with one message after another: what no stylesheet knows is swept out while nothing runs.
 */
final class Spaces {
    /** More than a day of honest messages brings; some 200 bytes each. */
    private static final int SPACES_MAX = 50_000;

    private static final ReentrantReadWriteLock RUNNING = new ReentrantReadWriteLock();
    private static final Map<?, ?> TABLE = table();
    private static final Set<Object> KNOWN = ConcurrentHashMap.newKeySet();

    private Spaces() {}

    /** Saxon's own table, which has no other door. */
    private static Map<?, ?> table() {
        try {
            Field field = NamespaceUri.class.getDeclaredField("stringToNamespaceUri");
            field.setAccessible(true);
            return (Map<?, ?>) field.get(null);
        } catch (ReflectiveOperationException | RuntimeException error) {
            // Another version of Saxon: it keeps what it meets.
            return Map.of();
        }
    }

    /** A run begins. */
    static void enter() {
        RUNNING.readLock().lock();
    }

    /** And ends. */
    static void leave() {
        RUNNING.readLock().unlock();
    }

    /** What is there now belongs to stylesheets. */
    static void learn() {
        KNOWN.addAll(TABLE.keySet());
    }

    static int size() {
        return TABLE.size();
    }

    /** Sweeps if there are too many and nothing runs; else another time. Not between enter and leave. */
    static void sweep() {
        if (TABLE.size() > SPACES_MAX + KNOWN.size() && RUNNING.writeLock().tryLock()) {
            try {
                TABLE.keySet().retainAll(KNOWN);
            } finally {
                RUNNING.writeLock().unlock();
            }
        }
    }
}
