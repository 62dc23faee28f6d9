# Builds Tidegate and ends in an image of the program, its C library and the usual authorities: no shell, no package manager.
#
#   docker build --tag tidegate .
#   docker run --publish 8080:8080 --volume "$PWD/tidegate.yaml:/etc/tidegate/tidegate.yaml:ro" tidegate
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
# What was built before is kept between builds, and is no part of an image.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --package tidegate --bin tidegate \
    && scripts/symbols.sh target/release/tidegate /out

# The symbols of the program in the image: `docker build --target symbols --output . .`
FROM scratch AS symbols
COPY --from=build /out/tidegate.debug /

# Of the same Debian as the one above, so that the C library is the one the program was linked with.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /out/tidegate /usr/local/bin/tidegate
COPY deploy/container.yaml /etc/tidegate/tidegate.yaml
USER 65532:65532
WORKDIR /etc/tidegate
EXPOSE 8080
# Asks the admin API on 127.0.0.1:9901 whether the gateway is ready. While it drains it is not.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 CMD ["/usr/local/bin/tidegate", "ready"]
# SIGTERM lets exchanges end; give it the time, 35 s if nothing is said: `docker stop --time 40`.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/tidegate"]
CMD ["run", "/etc/tidegate/tidegate.yaml"]
