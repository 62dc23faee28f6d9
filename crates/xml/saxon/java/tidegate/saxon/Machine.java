package tidegate.saxon;

import java.io.OutputStream;
import java.io.PrintStream;

/** What the gateway asks of the machine as a whole. */
final class Machine {
    static {
        // The outputs are the program's: `trace()` writes what a message holds, and Saxon the stack of each mistake of its own. What
        // is wrong is said in the fault. The machine itself writes past this.
        PrintStream nowhere = new PrintStream(OutputStream.nullOutputStream());
        System.setOut(nowhere);
        System.setErr(nowhere);
    }

    private Machine() {}

    /** Grows when what both halves say to each other changes; `vm.rs` has the same number. */
    static int version() {
        return 1;
    }

    static long heapUsed() {
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }

    static long heapMax() {
        return Runtime.getRuntime().maxMemory();
    }

    /** What is thrown into a thread whose message has taken too long. */
    static Throwable stop() {
        return new Stop();
    }

    static final class Stop extends Error {
        private static final long serialVersionUID = 1;

        Stop() {
            super(null, null, false, false);
        }
    }
}
