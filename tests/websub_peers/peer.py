"""A publisher and a subscriber by Flask-WebSub, in one process.

Arguments: the hub's URL and a folder. Lines of input are orders, lines of output are JSON and say what has happened.
"""

import json
import logging
import sys
import threading
import warnings

import requests
from flask import Flask
from flask_websub.errors import FlaskWebSubError
from flask_websub.publisher import init_publisher, publisher
from flask_websub.subscriber import (
    SQLite3SubscriberStorage,
    SQLite3TempSubscriberStorage,
    Subscriber,
    discover,
)
from flask_websub.utils import calculate_hmac
from werkzeug.serving import make_server

hub, folder = sys.argv[1:3]
lock = threading.Lock()


def say(**what):
    with lock:
        print(json.dumps(what), flush=True)


warnings.simplefilter("ignore")
logging.getLogger("werkzeug").setLevel(logging.ERROR)
app = Flask(__name__)
init_publisher(app)
subscriber = Subscriber(
    SQLite3SubscriberStorage(folder + "/subscriber.db"),
    SQLite3TempSubscriberStorage(folder + "/subscriber.db"),
    REQUEST_TIMEOUT=60,
)
app.register_blueprint(subscriber.build_blueprint("/callbacks"))


@app.route("/page")
@publisher(self_url=hub + "/topics/sports", hub_url=hub)
def page():
    return "<html><body>what happened</body></html>"


@subscriber.add_listener
def on_event(topic, callback, body):
    say(event="notified", topic=topic, id=callback, body=body.decode())


@subscriber.add_success_handler
def on_success(topic, callback, mode):
    say(event="confirmed", topic=topic, id=callback, mode=mode)


def publish(body, secret=None):
    data = body.encode()
    headers = {"Content-Type": "text/plain"}
    if secret:
        headers["X-Hub-Signature"] = "sha256=" + calculate_hmac("sha256", secret, data)
    return requests.post(hub + "/publish?topic=sports", data=data, headers=headers, timeout=60).status_code


def obey(order, *words):
    if order == "discover":
        say(event="discovered", **discover(words[0], timeout=60))
    elif order == "subscribe":
        lease = {"lease_seconds": int(words[1])} if len(words) > 1 else {}
        found = discover(words[0], timeout=60)
        say(event="asked", id=subscriber.subscribe(**found, **lease))
    elif order == "renew":
        subscriber.renew(words[0])
    elif order == "unsubscribe":
        subscriber.unsubscribe(words[0])
    elif order == "publish":
        say(event="published", status=publish(*words))


server = make_server("127.0.0.1", 0, app, threaded=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
own = "127.0.0.1:%d" % server.port
say(event="serves", url="http://" + own)
for line in sys.stdin:
    # Callbacks are made of the address in the request.
    with app.test_request_context(base_url="http://" + own):
        try:
            obey(*line.split())
        except (FlaskWebSubError, requests.RequestException) as error:
            say(event="failed", why=repr(error))
