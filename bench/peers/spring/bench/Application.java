// Spring Cloud Gateway with routes from a file: tokens are checked by Spring Security, and an interceptor of Choreo Connect's contract
// is asked by a filter.
package bench;

import com.fasterxml.jackson.databind.JsonNode;
import com.nimbusds.jose.jwk.JWKSet;
import java.io.File;
import java.time.Duration;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.cloud.gateway.filter.GatewayFilter;
import org.springframework.cloud.gateway.filter.factory.AbstractGatewayFilterFactory;
import org.springframework.context.annotation.Bean;
import org.springframework.core.io.buffer.DataBuffer;
import org.springframework.core.io.buffer.DataBufferUtils;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpStatus;
import org.springframework.http.MediaType;
import org.springframework.http.server.reactive.ServerHttpRequestDecorator;
import org.springframework.security.config.web.server.ServerHttpSecurity;
import org.springframework.security.oauth2.jose.jws.SignatureAlgorithm;
import org.springframework.security.oauth2.jwt.JwtValidators;
import org.springframework.security.oauth2.jwt.NimbusReactiveJwtDecoder;
import org.springframework.security.web.server.SecurityWebFilterChain;
import org.springframework.stereotype.Component;
import org.springframework.web.reactive.function.client.WebClient;
import org.springframework.web.server.ResponseStatusException;
import org.springframework.web.server.ServerWebExchange;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

@SpringBootApplication
public class Application {
  public static void main(String[] arguments) {
    SpringApplication.run(Application.class, arguments);
  }

  @Bean
  SecurityWebFilterChain security(
      ServerHttpSecurity http,
      @Value("${bench.issuer}") String issuer,
      @Value("${bench.jwks}") String jwks,
      org.springframework.core.env.Environment environment)
      throws Exception {
    http.csrf(csrf -> csrf.disable()).headers(headers -> headers.disable()).requestCache(cache -> cache.disable());
    String[] secured =
        org.springframework.boot.context.properties.bind.Binder.get(environment)
            .bind("bench.secured", String[].class)
            .orElse(new String[0]);
    if (secured.length == 0) {
      return http.authorizeExchange(all -> all.anyExchange().permitAll()).build();
    }
    JWKSet keys = JWKSet.load(new File(jwks));
    SignatureAlgorithm algorithm = SignatureAlgorithm.from(keys.getKeys().get(0).getAlgorithm().getName());
    NimbusReactiveJwtDecoder decoder =
        NimbusReactiveJwtDecoder.withJwkSource(token -> Flux.fromIterable(keys.getKeys()))
            .jwsAlgorithm(algorithm)
            .build();
    decoder.setJwtValidator(JwtValidators.createDefaultWithIssuer(issuer));
    return http.authorizeExchange(all -> all.pathMatchers(secured).authenticated().anyExchange().permitAll())
        .oauth2ResourceServer(server -> server.jwt(jwt -> jwt.jwtDecoder(decoder)))
        .build();
  }

  /** Tells a service headers and body of a request, and adds the headers that it answers. */
  @Component
  static class InterceptGatewayFilterFactory extends AbstractGatewayFilterFactory<InterceptGatewayFilterFactory.Config> {
    static class Config {
      private String service;

      public String getService() {
        return service;
      }

      public void setService(String service) {
        this.service = service;
      }
    }

    InterceptGatewayFilterFactory() {
      super(Config.class);
    }

    @Override
    public List<String> shortcutFieldOrder() {
      return List.of("service");
    }

    @Override
    public GatewayFilter apply(Config config) {
      WebClient client = WebClient.create(config.getService());
      return (exchange, chain) ->
          DataBufferUtils.join(exchange.getRequest().getBody())
              .map(InterceptGatewayFilterFactory::bytes)
              .defaultIfEmpty(new byte[0])
              .flatMap(body -> ask(client, exchange, body).flatMap(answer -> chain.filter(changed(exchange, body, answer))));
    }

    private static byte[] bytes(DataBuffer buffer) {
      byte[] bytes = new byte[buffer.readableByteCount()];
      buffer.read(bytes);
      DataBufferUtils.release(buffer);
      return bytes;
    }

    private static Mono<JsonNode> ask(WebClient client, ServerWebExchange exchange, byte[] body) {
      Map<String, Object> call = new LinkedHashMap<>();
      call.put("requestHeaders", exchange.getRequest().getHeaders().toSingleValueMap());
      call.put("requestBody", Base64.getEncoder().encodeToString(body));
      return client
          .post()
          .uri("/api/v1/handle-request")
          .contentType(MediaType.APPLICATION_JSON)
          .bodyValue(call)
          .retrieve()
          .bodyToMono(JsonNode.class)
          .timeout(Duration.ofSeconds(2))
          // What a load test does not need is refused, never passed over.
          .filter(answer -> !answer.has("body") && !answer.path("directRespond").asBoolean())
          .switchIfEmpty(Mono.error(new ResponseStatusException(HttpStatus.INTERNAL_SERVER_ERROR)));
    }

    private static ServerWebExchange changed(ServerWebExchange exchange, byte[] body, JsonNode answer) {
      HttpHeaders headers = new HttpHeaders();
      headers.addAll(exchange.getRequest().getHeaders());
      answer.path("headersToRemove").forEach(name -> headers.remove(name.asText()));
      answer.path("headersToReplace").properties().forEach(header -> headers.set(header.getKey(), header.getValue().asText()));
      answer.path("headersToAdd").properties().forEach(header -> headers.add(header.getKey(), header.getValue().asText()));
      ServerHttpRequestDecorator request =
          new ServerHttpRequestDecorator(exchange.getRequest()) {
            @Override
            public HttpHeaders getHeaders() {
              return headers;
            }

            @Override
            public Flux<DataBuffer> getBody() {
              return Flux.just(exchange.getResponse().bufferFactory().wrap(body));
            }
          };
      return exchange.mutate().request(request).build();
    }
  }
}
