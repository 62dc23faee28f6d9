package tidegate.saxon;

/** What the gateway asks of the machine as a whole. */
final class Machine {
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
