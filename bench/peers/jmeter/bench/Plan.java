package bench;

import static us.abstracta.jmeter.javadsl.JmeterDsl.httpDefaults;
import static us.abstracta.jmeter.javadsl.JmeterDsl.httpSampler;
import static us.abstracta.jmeter.javadsl.JmeterDsl.jsr223PostProcessor;
import static us.abstracta.jmeter.javadsl.JmeterDsl.jsr223PreProcessor;
import static us.abstracta.jmeter.javadsl.JmeterDsl.testPlan;
import static us.abstracta.jmeter.javadsl.JmeterDsl.threadGroup;
import static us.abstracta.jmeter.javadsl.JmeterDsl.threadPause;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.jmeter.samplers.SampleResult;
import org.apache.jmeter.threads.JMeterVariables;
import us.abstracta.jmeter.javadsl.core.DslTestPlan.TestPlanChild;
import us.abstracta.jmeter.javadsl.http.DslHttpSampler;

/**
 * A scenario's load as a JMeter plan, from the file that `tidegate-bench load write` makes of it: `Plan LOAD.json`. Prints figures as our
 * own generator does; samples that begin within the warm-up do not count.
 */
public final class Plan {
    private static final Pattern PLACE = Pattern.compile("\\$\\{([^}]+)\\}");
    private static final String LETTERS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    private static final Duration REPLY_MAX = Duration.ofSeconds(20);

    private final JsonNode load;
    private final JsonNode tables;
    private final AtomicLong samples = new AtomicLong();
    private final AtomicLong errors = new AtomicLong();
    private final AtomicLong milliseconds = new AtomicLong();
    private final AtomicLong first = new AtomicLong();
    /** The begin of the first sample that counts, and the end of the last one. */
    private final AtomicLong from = new AtomicLong(Long.MAX_VALUE);
    private final AtomicLong to = new AtomicLong();

    private Plan(JsonNode load) {
        this.load = load;
        this.tables = load.at("/work/requests/tables");
    }

    public static void main(String[] arguments) throws Exception {
        Plan plan = new Plan(new ObjectMapper().readTree(new File(arguments[0])));
        plan.run();
        System.out.println(plan.figures());
        // Threads of the engine would keep the process.
        System.exit(0);
    }

    private void run() throws Exception {
        List<TestPlanChild> children = new ArrayList<>();
        // Users keep their connections, as those of our generator do.
        children.add(httpDefaults().resetConnectionsBetweenIterations(false));
        for (JsonNode group : load.at("/work/requests/groups")) {
            JsonNode stages = group.get("stages");
            int users = stages.get(stages.size() - 1).get("users").asInt();
            children.add(threadGroup(users, duration(load.get("duration")),
                sampler(group), threadPause(duration(group.get("think")))));
        }
        testPlan(children.toArray(new TestPlanChild[0])).run();
    }

    private DslHttpSampler sampler(JsonNode group) {
        JsonNode request = group.get("requests").get(0);
        String scheme = load.at("/target/tls").isNull() ? "http" : "https";
        AtomicLong numbers = new AtomicLong();
        DslHttpSampler sampler = httpSampler(scheme + "://" + load.at("/target/address").asText() + "/${path}")
            .method(request.get("method").asText()).responseTimeout(REPLY_MAX).followRedirects(false);
        JsonNode headers = request.get("headers");
        for (int place = 0; place < headers.size(); place++) {
            sampler = sampler.header(headers.get(place).get(0).asText(), "${header" + place + "}");
        }
        if (!request.get("body").asText().isEmpty()) {
            sampler = sampler.body("${body}");
        }
        return sampler.children(
            jsr223PreProcessor(s -> {
                Turn turn = new Turn(numbers.getAndIncrement(), Thread.currentThread().getId());
                s.vars.put("path", filled(request.get("path"), turn).substring(1));
                s.vars.put("body", filled(request.get("body"), turn));
                for (int place = 0; place < headers.size(); place++) {
                    s.vars.put("header" + place, filled(headers.get(place).get(1), turn));
                }
                s.vars.putObject("turn", turn);
            }),
            jsr223PostProcessor(s -> count(s.prev, s.vars, request.get("expected"))));
    }

    private void count(SampleResult sample, JMeterVariables vars, JsonNode expected) {
        first.compareAndSet(0, sample.getStartTime());
        if (sample.getStartTime() - first.get() <= duration(load.get("warm_up")).toMillis()) {
            return;
        }
        samples.incrementAndGet();
        from.accumulateAndGet(sample.getStartTime(), Math::min);
        to.accumulateAndGet(sample.getEndTime(), Math::max);
        milliseconds.addAndGet(sample.getTime());
        if (!isRight(sample, vars, expected)) {
            errors.incrementAndGet();
        }
    }

    private boolean isRight(SampleResult sample, JMeterVariables vars, JsonNode expected) {
        if (!sample.getResponseCode().equals(expected.get("status").asText())) {
            return false;
        }
        String lines = "\n" + sample.getResponseHeaders().toLowerCase();
        for (JsonNode header : expected.get("headers")) {
            if (!lines.contains("\n" + header.get(0).asText().toLowerCase() + ": " + header.get(1).asText().toLowerCase() + "\n")) {
                return false;
            }
        }
        JsonNode body = expected.get("body");
        String reply = sample.getResponseDataAsString();
        Turn turn = (Turn) vars.getObject("turn");
        if (body.isTextual()) {
            return switch (body.asText()) {
                case "any" -> true;
                case "echo" -> reply.equals(vars.get("body"));
                case "contains-request" -> reply.contains(vars.get("body"));
                default -> throw new IllegalArgumentException(body.toString());
            };
        }
        Map.Entry<String, JsonNode> wanted = body.fields().next();
        return switch (wanted.getKey()) {
            case "contains" -> reply.contains(filled(wanted.getValue(), turn));
            case "equals" -> reply.equals(filled(wanted.getValue(), turn));
            case "bytes" -> sample.getResponseData().length == wanted.getValue().asInt();
            default -> throw new IllegalArgumentException(body.toString());
        };
    }

    /** Fills in the places of a text. */
    private String filled(JsonNode text, Turn turn) {
        return PLACE.matcher(text.asText()).replaceAll(place -> Matcher.quoteReplacement(value(place.group(1), turn)));
    }

    private String value(String place, Turn turn) {
        if (place.contains(":")) {
            String[] parts = place.split(":");
            int size = Integer.parseInt(parts[1]);
            return switch (parts[0]) {
                case "number" -> digits(turn.number, size);
                case "user" -> digits(turn.user, size);
                case "random" -> letters(size);
                default -> throw new IllegalArgumentException(place);
            };
        }
        String[] parts = place.split("\\.");
        JsonNode table = tables.get(parts[0]);
        long by = "user".equals(table.path("by").asText()) ? turn.user : turn.number;
        int column = 0;
        while (!table.get("columns").get(column).asText().equals(parts[1])) {
            column++;
        }
        return table.get("rows").get((int) (by % table.get("rows").size())).get(column).asText();
    }

    private static String digits(long number, int size) {
        String text = String.format("%0" + size + "d", number);
        return text.substring(text.length() - size);
    }

    private static String letters(int count) {
        StringBuilder text = new StringBuilder();
        for (int n = 0; n < count; n++) {
            text.append(LETTERS.charAt(ThreadLocalRandom.current().nextInt(LETTERS.length())));
        }
        return text.toString();
    }

    private String figures() {
        long count = samples.get();
        double seconds = count == 0 ? 1 : (to.get() - from.get()) / 1000.0;
        return String.format("{\"samples\":%d,\"errors\":%d,\"throughput\":%s,\"mean_ms\":%s}", count, errors.get(), count / seconds,
            milliseconds.get() / (double) Math.max(count, 1));
    }

    private static Duration duration(JsonNode parts) {
        return Duration.ofSeconds(parts.get("secs").asLong(), parts.get("nanos").asLong());
    }

    /** What one request's texts are filled in with. */
    private static final class Turn {
        private final long number;
        private final long user;

        private Turn(long number, long user) {
            this.number = number;
            this.user = user;
        }
    }
}
