//! Tests of all keys, their defaults, and the schema for editors.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    reason = "a panic fails the test"
)]

use std::path::Path;

use config::{Config, Decode};
use expect_test::{Expect, expect, expect_file};
use serde_json::Value as Json;

fn read(text: &str) -> Config {
    let loaded = config::parse(text, Path::new("/etc/tidegate/gate.yaml"));
    assert!(loaded.report.is_empty(), "should be readable:\n{}", loaded.report);
    loaded.config.unwrap()
}

fn check(text: &str, expected: Expect) {
    let written = serde_json::to_string_pretty(&read(text).encode()).unwrap();
    expected.assert_eq(&written);
}

/// A configuration with most keys.
const FULL: &str = include_str!("full.yaml");

#[test]
fn every_default() {
    check(
        r#"
listen: { a: { address: "127.0.0.1:0", tls: { certificate: c.pem, key: k.pem } } }
upstreams: { a: { targets: ["http://h"], health: {}, outlier: {} } }
routes:
  a: { match: {}, upstream: a }
  b: { match: {}, respond: {}, policies: [{ headers: {} }] }
telemetry: { access_log: {} }
"#,
        expect![[r#"
            {
              "listen": {
                "a": {
                  "address": "127.0.0.1:0",
                  "tls": {
                    "certificate": "/etc/tidegate/c.pem",
                    "key": "/etc/tidegate/k.pem",
                    "self_signed": false,
                    "sni": {},
                    "versions": [
                      "1.2",
                      "1.3"
                    ]
                  },
                  "http2": true,
                  "proxy_protocol": false,
                  "trusted_proxies": [],
                  "pass_untrusted_headers": false,
                  "paths": {
                    "escaped_slash": "refuse",
                    "empty_segments": "merge",
                    "parameters": "refuse"
                  },
                  "limits": {
                    "head_bytes_max": "64KiB",
                    "target_bytes_max": "16KiB",
                    "headers_max": 128,
                    "connections_max": 65536,
                    "streams_max": 128,
                    "body_rate_min": "240B"
                  },
                  "timeout": {
                    "head": "10s",
                    "body": "30s",
                    "idle": "75s",
                    "tunnel": "10m",
                    "tls": "10s"
                  }
                }
              },
              "limits": {
                "memory": "60%"
              },
              "shutdown": {
                "delay": "5s",
                "drain": "30s"
              },
              "upgrade": {
                "timeout": "30s",
                "drain": "1h"
              },
              "upstreams": {
                "a": {
                  "targets": [
                    {
                      "url": "http://h:80",
                      "weight": 1
                    }
                  ],
                  "addresses": "together",
                  "protocol": "http1",
                  "balance": "round_robin",
                  "available_min_percent": 0,
                  "timeout": {
                    "connect": "1s",
                    "response": "1m",
                    "idle": "1m"
                  },
                  "retry": {
                    "when": [
                      "connect_failure"
                    ],
                    "body_bytes_max": "64KiB",
                    "non_idempotent": true,
                    "pause_max": "250ms"
                  },
                  "health": {
                    "interval": "10s",
                    "timeout": "1s",
                    "unhealthy_after": 2,
                    "healthy_after": 2,
                    "statuses": [
                      "200-399"
                    ]
                  },
                  "outlier": {
                    "consecutive_faults": 5,
                    "statuses": [
                      "500-599"
                    ],
                    "until": "time",
                    "eject": "30s",
                    "max_ejected_percent": 50
                  },
                  "breaker": {
                    "connections": 65536,
                    "requests": 65536,
                    "pending": 65536
                  },
                  "pool": {
                    "idle_max": 1024
                  },
                  "dns": {
                    "refresh": "5s"
                  },
                  "tls": {
                    "verify": true
                  }
                }
              },
              "issuers": {},
              "routes": {
                "a": {
                  "match": {
                    "path": "/**",
                    "priority": 0,
                    "listener": [],
                    "host": [],
                    "sni": [],
                    "source": [],
                    "methods": [],
                    "head": true,
                    "headers": {},
                    "query": {}
                  },
                  "host": "preserve",
                  "limits": {
                    "length_required": false
                  },
                  "streams": {
                    "reload": "keep",
                    "drain": "30s"
                  },
                  "policies": [],
                  "defaults": true,
                  "errors": "problem",
                  "upstream": "a",
                  "services": {
                    "imports": {}
                  }
                },
                "b": {
                  "match": {
                    "path": "/**",
                    "priority": 0,
                    "listener": [],
                    "host": [],
                    "sni": [],
                    "source": [],
                    "methods": [],
                    "head": true,
                    "headers": {},
                    "query": {}
                  },
                  "host": "preserve",
                  "limits": {
                    "length_required": false
                  },
                  "streams": {
                    "reload": "keep",
                    "drain": "30s"
                  },
                  "policies": [
                    {
                      "headers": {
                        "request": {
                          "rename": {},
                          "replace": {},
                          "set": {},
                          "default": {},
                          "add": {},
                          "remove": [],
                          "if_status": []
                        },
                        "response": {
                          "rename": {},
                          "replace": {},
                          "set": {},
                          "default": {},
                          "add": {},
                          "remove": [],
                          "if_status": []
                        }
                      }
                    }
                  ],
                  "defaults": true,
                  "errors": "problem",
                  "services": {
                    "imports": {}
                  },
                  "respond": {
                    "status": 200,
                    "body": "",
                    "headers": {}
                  }
                }
              },
              "flows": {},
              "databases": {},
              "hubs": {},
              "queues": {},
              "schedules": {},
              "cases": {},
              "plans": {},
              "applications": {},
              "stores": {},
              "policy_sets": {},
              "defaults": {
                "policies": []
              },
              "apis": {},
              "saxon": {
                "heap_bytes_max": "256MiB",
                "pending": 1024,
                "timeout": "5s"
              },
              "telemetry": {
                "access_log": {
                  "format": "json",
                  "fields": {},
                  "to": "stdout"
                }
              }
            }"#]],
    );
    check(
        "listen: {}",
        expect![[r#"
            {
              "listen": {},
              "limits": {
                "memory": "60%"
              },
              "shutdown": {
                "delay": "5s",
                "drain": "30s"
              },
              "upgrade": {
                "timeout": "30s",
                "drain": "1h"
              },
              "upstreams": {},
              "issuers": {},
              "routes": {},
              "flows": {},
              "databases": {},
              "hubs": {},
              "queues": {},
              "schedules": {},
              "cases": {},
              "plans": {},
              "applications": {},
              "stores": {},
              "policy_sets": {},
              "defaults": {
                "policies": []
              },
              "apis": {},
              "saxon": {
                "heap_bytes_max": "256MiB",
                "pending": 1024,
                "timeout": "5s"
              },
              "telemetry": {}
            }"#]],
    );
}

#[test]
fn every_key() {
    check(
        FULL,
        expect![[r#"
            {
              "listen": {
                "public": {
                  "address": "0.0.0.0:8080",
                  "http2": true,
                  "proxy_protocol": false,
                  "trusted_proxies": [],
                  "pass_untrusted_headers": false,
                  "paths": {
                    "escaped_slash": "refuse",
                    "empty_segments": "merge",
                    "parameters": "refuse"
                  },
                  "limits": {
                    "head_bytes_max": "64KiB",
                    "target_bytes_max": "16KiB",
                    "headers_max": 128,
                    "connections_max": 65536,
                    "streams_max": 128,
                    "body_rate_min": "240B"
                  },
                  "timeout": {
                    "head": "10s",
                    "body": "30s",
                    "idle": "75s",
                    "tunnel": "10m",
                    "tls": "10s"
                  }
                },
                "secure": {
                  "address": "[::1]:8443",
                  "tls": {
                    "certificate": "/etc/tidegate/tls/cert.pem",
                    "key": "/etc/tidegate/tls/key.pem",
                    "self_signed": false,
                    "sni": {
                      "*.example.com": {
                        "certificate": "/etc/tidegate/tls/wild.pem",
                        "key": "/etc/tidegate/tls/wild.key"
                      }
                    },
                    "versions": [
                      "1.3"
                    ],
                    "client_ca": "/etc/tidegate/tls/clients.pem"
                  },
                  "http2": false,
                  "proxy_protocol": true,
                  "trusted_proxies": [
                    "10.0.0.0/8",
                    "fd00::1/128"
                  ],
                  "pass_untrusted_headers": false,
                  "paths": {
                    "escaped_slash": "refuse",
                    "empty_segments": "merge",
                    "parameters": "refuse"
                  },
                  "limits": {
                    "head_bytes_max": "32KiB",
                    "target_bytes_max": "8KiB",
                    "headers_max": 64,
                    "connections_max": 100,
                    "streams_max": 10,
                    "body_rate_min": "240B"
                  },
                  "timeout": {
                    "head": "1s",
                    "body": "2m",
                    "idle": "3h",
                    "tunnel": "10m",
                    "tls": "250ms"
                  }
                }
              },
              "admin": {
                "address": "127.0.0.1:9901",
                "users": {},
                "origins": [],
                "hosts": [],
                "open": false,
                "history": 50
              },
              "workers": 2,
              "limits": {
                "memory": "2GiB"
              },
              "shutdown": {
                "delay": "5s",
                "drain": "0s"
              },
              "upgrade": {
                "timeout": "30s",
                "drain": "1h"
              },
              "upstreams": {
                "orders": {
                  "targets": [
                    {
                      "url": "http://10.0.0.1:8080",
                      "weight": 1
                    },
                    {
                      "url": "https://orders.example:443",
                      "weight": 2
                    },
                    {
                      "url": "http://[::1]:1",
                      "weight": 1
                    }
                  ],
                  "addresses": "together",
                  "protocol": "auto",
                  "balance": {
                    "hash": {
                      "by": "header:x-user"
                    }
                  },
                  "available_min_percent": 0,
                  "sticky": {
                    "cookie": "server"
                  },
                  "timeout": {
                    "connect": "2s",
                    "response": "20s",
                    "idle": "1d"
                  },
                  "retry": {
                    "attempts": 2,
                    "when": [
                      "connect_failure",
                      "reset",
                      "timeout",
                      502,
                      503
                    ],
                    "body_bytes_max": "1MB",
                    "non_idempotent": true,
                    "pause_max": "250ms"
                  },
                  "suspend": {
                    "on": [
                      "timeout",
                      "connect_failure",
                      "reset",
                      503
                    ],
                    "after": 3,
                    "initial": "500ms",
                    "factor": 1.5,
                    "max": "30s"
                  },
                  "health": {
                    "path": "/health",
                    "interval": "5s",
                    "timeout": "500ms",
                    "unhealthy_after": 3,
                    "healthy_after": 1,
                    "statuses": [
                      200,
                      "204-299"
                    ]
                  },
                  "outlier": {
                    "consecutive_faults": 3,
                    "statuses": [
                      "500-599"
                    ],
                    "until": "time",
                    "eject": "10s",
                    "max_ejected_percent": 100
                  },
                  "breaker": {
                    "connections": 10,
                    "requests": 20,
                    "pending": 1
                  },
                  "pool": {
                    "idle_max": 0
                  },
                  "dns": {
                    "refresh": "30s"
                  },
                  "tls": {
                    "ca": "/etc/tidegate/ca.pem",
                    "certificate": "/etc/tidegate/client.pem",
                    "key": "/etc/tidegate/client.key",
                    "verify": false,
                    "server_name": "orders.example"
                  }
                },
                "least": {
                  "targets": [
                    {
                      "url": "http://h:1",
                      "weight": 1
                    }
                  ],
                  "addresses": "together",
                  "protocol": "http1",
                  "balance": "least_requests",
                  "available_min_percent": 0,
                  "timeout": {
                    "connect": "1s",
                    "response": "1m",
                    "idle": "1m"
                  },
                  "retry": {
                    "when": [
                      "connect_failure"
                    ],
                    "body_bytes_max": "64KiB",
                    "non_idempotent": true,
                    "pause_max": "250ms"
                  },
                  "health": {
                    "path": "/",
                    "interval": "10s",
                    "timeout": "1s",
                    "unhealthy_after": {
                      "connection": 2,
                      "timeout": 1,
                      "status": 3
                    },
                    "healthy_after": 2,
                    "statuses": [
                      "200-399"
                    ],
                    "unhealthy_statuses": [
                      429,
                      "500-599"
                    ]
                  },
                  "breaker": {
                    "connections": 65536,
                    "requests": 65536,
                    "pending": 65536
                  },
                  "pool": {
                    "idle_max": 1024
                  },
                  "dns": {
                    "refresh": "5s"
                  },
                  "tls": {
                    "verify": true
                  }
                },
                "hashed": {
                  "targets": [
                    {
                      "url": "http://h:1",
                      "weight": 1
                    }
                  ],
                  "addresses": "together",
                  "protocol": "http1",
                  "balance": {
                    "hash": {
                      "by": "client"
                    }
                  },
                  "available_min_percent": 0,
                  "timeout": {
                    "connect": "1s",
                    "response": "1m",
                    "idle": "1m"
                  },
                  "retry": {
                    "when": [
                      "connect_failure"
                    ],
                    "body_bytes_max": "64KiB",
                    "non_idempotent": true,
                    "pause_max": "250ms"
                  },
                  "breaker": {
                    "connections": 65536,
                    "requests": 65536,
                    "pending": 65536
                  },
                  "pool": {
                    "idle_max": 1024
                  },
                  "dns": {
                    "refresh": "5s"
                  },
                  "tls": {
                    "verify": true
                  }
                }
              },
              "issuers": {},
              "routes": {
                "orders": {
                  "match": {
                    "path": "/orders/{id}/**",
                    "priority": 0,
                    "listener": [],
                    "host": [
                      "api.example.com",
                      "*.example.org"
                    ],
                    "sni": [],
                    "source": [],
                    "methods": [
                      "GET",
                      "POST"
                    ],
                    "head": true,
                    "headers": {
                      "x-tier": "gold",
                      "x-any": {
                        "present": true
                      }
                    },
                    "query": {
                      "v": "2",
                      "debug": {
                        "present": true
                      }
                    }
                  },
                  "strip_prefix": "/orders",
                  "rewrite": "/v2/{id}/{**}",
                  "host": "orders.internal",
                  "limits": {
                    "body_bytes_max": "10MiB",
                    "length_required": false
                  },
                  "streams": {
                    "reload": "keep",
                    "drain": "30s"
                  },
                  "policies": [
                    {
                      "headers": {
                        "request": {
                          "rename": {},
                          "replace": {},
                          "set": {
                            "x-a": "b",
                            "x-on": "true"
                          },
                          "default": {},
                          "add": {
                            "x-n": "5"
                          },
                          "remove": [
                            "x-c"
                          ],
                          "if_status": []
                        },
                        "response": {
                          "rename": {
                            "x-old": "x-new"
                          },
                          "replace": {},
                          "set": {
                            "x-s": ""
                          },
                          "default": {},
                          "add": {
                            "x-d": "e"
                          },
                          "remove": [
                            "server"
                          ],
                          "if_status": []
                        }
                      }
                    }
                  ],
                  "defaults": true,
                  "errors": "problem",
                  "upstream": "orders",
                  "services": {
                    "imports": {}
                  }
                },
                "shared": {
                  "match": {
                    "path": [
                      "/s",
                      {
                        "regex": "/s/[0-9]+"
                      }
                    ],
                    "priority": 0,
                    "listener": [],
                    "host": [],
                    "sni": [],
                    "source": [],
                    "methods": [],
                    "head": true,
                    "headers": {},
                    "query": {}
                  },
                  "host": "preserve",
                  "limits": {
                    "length_required": false
                  },
                  "streams": {
                    "reload": "keep",
                    "drain": "30s"
                  },
                  "policies": [],
                  "defaults": true,
                  "errors": "problem",
                  "upstream": {
                    "orders": 90,
                    "other": 10
                  },
                  "services": {
                    "imports": {}
                  },
                  "mirror": {
                    "upstream": "orders",
                    "percent": 2.5,
                    "body_bytes_max": "1KiB"
                  }
                },
                "hello": {
                  "match": {
                    "path": "/hello",
                    "priority": 0,
                    "listener": [],
                    "host": "one.example",
                    "sni": [],
                    "source": [],
                    "methods": "GET",
                    "head": true,
                    "headers": {},
                    "query": {}
                  },
                  "host": "target",
                  "limits": {
                    "length_required": false
                  },
                  "streams": {
                    "reload": "keep",
                    "drain": "30s"
                  },
                  "policies": [],
                  "defaults": true,
                  "errors": "problem",
                  "services": {
                    "imports": {}
                  },
                  "respond": {
                    "status": 201,
                    "body": "hello\n",
                    "headers": {
                      "content-type": "text/plain"
                    }
                  }
                }
              },
              "flows": {},
              "databases": {
                "shop": {
                  "url": "postgres://db/shop?sslmode=disable",
                  "tls": {
                    "verify": false
                  },
                  "connections": 2,
                  "timeout": "1s",
                  "rows_max": 10
                },
                "file": {
                  "url": "sqlite:a.db",
                  "tls": {
                    "verify": true
                  },
                  "connections": 10,
                  "timeout": "5s",
                  "rows_max": 10000
                }
              },
              "hubs": {},
              "queues": {},
              "schedules": {},
              "cases": {
                "whole": {
                  "request": {
                    "method": "POST",
                    "path": "/a?b",
                    "headers": {
                      "x-a": "b"
                    },
                    "body": "text",
                    "body_file": "/etc/tidegate/body.txt"
                  },
                  "calls": [
                    {
                      "upstream": "orders",
                      "expect": {
                        "method": "PUT",
                        "path": "/c",
                        "headers": {
                          "x-b": "c"
                        },
                        "body": "text",
                        "xml": "<a/>",
                        "json": "{\"b\":[1,\"x\"]}"
                      },
                      "reply": {
                        "status": 404,
                        "headers": {
                          "x-c": "d"
                        },
                        "body": "no",
                        "delay": "1s"
                      }
                    },
                    {
                      "database": "shop",
                      "expect": {
                        "headers": {}
                      },
                      "reply": {
                        "status": 200,
                        "headers": {},
                        "body": "[]",
                        "delay": "0s"
                      }
                    }
                  ],
                  "reply": {
                    "status": 200,
                    "headers": {
                      "x-d": "e"
                    },
                    "body": "text",
                    "xml": "<a/>",
                    "json": "[1]",
                    "contains": [
                      "a",
                      "b"
                    ]
                  }
                }
              },
              "plans": {},
              "applications": {},
              "stores": {},
              "control": {
                "follow": "store",
                "canary": 2,
                "hold": "5m",
                "error_rate": 2.5
              },
              "policy_sets": {},
              "defaults": {
                "policies": []
              },
              "apis": {},
              "bundles": {
                "folder": "/etc/tidegate/bundles"
              },
              "saxon": {
                "heap_bytes_max": "256MiB",
                "pending": 1024,
                "timeout": "5s"
              },
              "telemetry": {
                "access_log": {
                  "format": "{client} {method}",
                  "fields": {},
                  "to": "stderr"
                }
              }
            }"#]],
    );
}

#[test]
fn what_is_written_back_reads_the_same() {
    let first = read(FULL);
    let second = read(&first.encode().to_string());
    assert_eq!(first, second);
}

#[test]
fn places_are_those_of_the_values() {
    let config = read(
        "listen:\n  a: { address: \"[::]:0\" }\nroutes:\n  r:\n    match: {}\n    upstream: x\n",
    );
    let (name, listener) = config.listen.iter().next().unwrap();
    assert_eq!((name.at.line, name.at.column), (2, 3));
    assert_eq!((listener.address.at.line, listener.address.at.column), (2, 17));
    let route = config.routes.get("r").unwrap();
    let upstream = route.value.upstream.as_ref().unwrap();
    assert_eq!((upstream.at.line, upstream.at.column), (6, 15));
}

#[test]
fn the_schema_is_as_committed() {
    let schema = serde_json::to_string_pretty(&config::json_schema()).unwrap() + "\n";
    expect_file!["schema.json"].assert_eq(&schema);
}

#[test]
fn the_schema_accepts_what_is_written_back() {
    validate(&read(FULL).encode()).unwrap();
}

/// JSON is YAML, so the schema and the reader can judge the same text.
#[test]
fn the_schema_and_the_reader_agree() {
    let listener = r#""listen": { "a": { "address": "127.0.0.1:0" } }"#;
    let upstream = |keys: &str| {
        format!(
            r#"{{ "listen": {{}}, "upstreams": {{ "a": {{ "targets": ["http://h"], {keys} }} }} }}"#
        )
    };
    let route = |keys: &str| format!(r#"{{ "listen": {{}}, "routes": {{ "a": {{ {keys} }} }} }}"#);
    for (text, good) in [
        (format!("{{ {listener} }}"), true),
        (r#"{ "listen": [] }"#.to_owned(), false),
        (r#"{ "workers": 1 }"#.to_owned(), true),
        (format!(r#"{{ {listener}, "workers": 257 }}"#), false),
        (format!(r#"{{ {listener}, "workers": "2" }}"#), false),
        (format!(r#"{{ {listener}, "worker": 2 }}"#), false),
        (format!(r#"{{ {listener}, "shutdown": {{ "drain": 30 }} }}"#), false),
        (format!(r#"{{ {listener}, "shutdown": {{ "drain": "30s" }} }}"#), true),
        (format!(r#"{{ {listener}, "drain": {{ "delay": "5s" }} }}"#), true),
        (format!(r#"{{ {listener}, "drain": "5s" }}"#), false),
        (upstream(r#""balance": "hash""#), true),
        (upstream(r#""balance": { "hash": {} }"#), true),
        (upstream(r#""balance": { "hash": { "by": "path" } }"#), true),
        (upstream(r#""balance": { "hash": { "by": "weather" } }"#), false),
        (upstream(r#""balance": { "hash": { "by": "cookie:a", "cookie_path": "/a" } }"#), true),
        (upstream(r#""balance": { "hash": { "by": "cookie:a", "cookie_path": "a" } }"#), false),
        (upstream(r#""balance": { "hash": { "by": "cookie:a", "cookie_path": "/a;b" } }"#), false),
        (upstream(r#""balance": "random""#), false),
        (upstream(r#""retry": { "on": ["reset", 503] }"#), true),
        (upstream(r#""retry": { "on": [404] }"#), false),
        (upstream(r#""health": { "statuses": [200, "300-399"] }"#), true),
        (upstream(r#""health": { "statuses": ["x"] }"#), false),
        (upstream(r#""tls": { "verify": "no" }"#), false),
        (route(r#""match": {}"#), true),
        (route(r#""upstream": "x""#), false),
        (route(r#""match": { "methods": "GET", "host": ["a", "b"] }"#), true),
        (route(r#""match": { "headers": { "a": "b", "c": { "present": true } } }"#), true),
        (route(r#""match": { "headers": { "c": { "present": false } } }"#), false),
        (route(r#""match": {}, "policies": [{ "headers": {} }]"#), true),
        (route(r#""match": {}, "policies": [{ "header": {} }]"#), false),
        (route(r#""match": {}, "policies": [{}]"#), false),
        (route(r#""match": {}, "flaw": "x""#), false),
        (route(r#""match": {}, "flow": "x""#), true),
        (
            format!(r#"{{ {listener}, "cases": {{ "a": {{ "request": {{ "path": "/" }} }} }} }}"#),
            true,
        ),
        (format!(r#"{{ {listener}, "cases": {{ "a": {{ "request": {{}} }} }} }}"#), false),
        (route(r#""match": {}, "limits": { "body_bytes_max": "10MiB" }"#), true),
        (route(r#""match": {}, "limits": { "body_bytes_max": 10 }"#), false),
    ] {
        let report = config::parse(&text, Path::new("gate.yaml")).report;
        assert_eq!(report.is_empty(), good, "reader: {text}: {report}");
        let valid = validate(&serde_json::from_str(&text).unwrap());
        assert_eq!(valid.is_ok(), good, "schema: {text}: {valid:?}");
    }
}

#[test]
fn every_section_is_closed_and_every_key_described() {
    let schema = config::json_schema();
    for (name, section) in schema["$defs"].as_object().unwrap() {
        assert_eq!(section["additionalProperties"], Json::Bool(false), "{name}");
        for (key, schema) in section["properties"].as_object().unwrap() {
            assert!(schema["description"].as_str().is_some_and(|d| d.len() > 3), "{name}.{key}");
        }
    }
}

/// The keys that several files may contribute to are exactly the top-level maps by name.
#[test]
fn maps_by_name_are_merged_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let schema = config::json_schema();
    let properties = schema["$defs"]["Config"]["properties"].as_object().unwrap();
    for (key, schema) in properties {
        std::fs::write(folder.path().join("a.yaml"), format!("{key}: {{}}\n")).unwrap();
        std::fs::write(folder.path().join("b.yaml"), format!("{key}: {{}}\n")).unwrap();
        let report = config::load(folder.path()).report;
        let twice = report.to_string().contains("is in two files");
        assert_eq!(twice, !schema["additionalProperties"].is_object(), "{key}");
    }
}

/// Validates a value, with the part of JSON Schema that our schema uses.
fn validate(value: &Json) -> Result<(), String> {
    let schema = config::json_schema();
    valid(&schema, &schema, value)
}

fn valid(root: &Json, schema: &Json, value: &Json) -> Result<(), String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#/$defs/").unwrap();
        valid(root, &root["$defs"][name], value)?;
    }
    let complain = |what: &str| Err(format!("{what}: {value} against {schema}"));
    if let Some(options) = schema["anyOf"].as_array()
        && !options.iter().any(|option| valid(root, option, value).is_ok())
    {
        return complain("none of several");
    }
    if schema["enum"].as_array().is_some_and(|words| !words.contains(value)) {
        return complain("not among the words");
    }
    if schema.get("const").is_some_and(|word| word != value) {
        return complain("not the constant");
    }
    let types: Vec<&str> = match &schema["type"] {
        Json::String(one) => vec![one],
        Json::Array(many) => many.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    let kind = match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.is_u64() => "integer",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    };
    let fits = |name: &&str| *name == kind || *name == "number" && kind == "integer";
    if !types.is_empty() && !types.iter().any(fits) {
        return complain("another type");
    }
    if let (Some(number), least, most) = (value.as_u64(), &schema["minimum"], &schema["maximum"])
        && (least.as_u64().is_some_and(|least| number < least)
            || most.as_u64().is_some_and(|most| number > most))
    {
        return complain("out of bounds");
    }
    if let (Some(text), Some(pattern)) = (value.as_str(), schema["pattern"].as_str())
        && !regex_lite::Regex::new(pattern).unwrap().is_match(text)
    {
        return complain("another shape");
    }
    for item in value.as_array().into_iter().flatten() {
        valid(root, &schema["items"], item)?;
    }
    for (key, inner) in value.as_object().into_iter().flatten() {
        match (schema["properties"].get(key), schema.get("additionalProperties")) {
            (Some(known), _) => valid(root, known, inner)?,
            (None, Some(Json::Bool(false))) => return complain(&format!("unknown key {key}")),
            (None, Some(others)) => valid(root, others, inner)?,
            (None, None) => {}
        }
    }
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str);
    match required.into_iter().find(|key| value.is_object() && value.get(key).is_none()) {
        Some(key) => complain(&format!("{key} is missing")),
        None => Ok(()),
    }
}
