"""Brokers by URL, and their troubles in our words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from dramatiq import Broker
from dramatiq.errors import BrokerError

from migronaut.errors import ConfigInvalidError, ConnectionFailedError, redact

BROKER_URL = "MIGRONAUT_BROKER_URL"

_REDIS = ("redis", "rediss")
_RABBITMQ = ("amqp", "amqps")
_CONNECT_TIMEOUT = 4.0

# With dramatiq's own values (60 s, one command in a thousand) the messages of a killed worker can take a quarter of an
# hour to come back.
_HEARTBEAT_TIMEOUT = 30_000
_MAINTENANCE_CHANCE = 50_000


def checked_url(url: str | None) -> str:
    """Return the URL of a broker if it can be one.

    Raises:
        ConfigInvalidError: It is missing or wrong. The URL is not quoted.
    """
    wanted = f"set {BROKER_URL} to redis://, rediss://, amqp:// or amqps:// with a host and, if needed, a port"
    if not url:
        raise ConfigInvalidError(f"No broker was named; {wanted}.")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in _REDIS + _RABBITMQ and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ConfigInvalidError(f"The URL of the broker cannot be used; {wanted}.")
    return url


def broker_from_url(url: str | None) -> Broker:
    """Make the broker that a URL names, without connecting to it.

    Raises:
        ConfigInvalidError: The URL is missing or wrong.
    """
    checked = checked_url(url)
    with _url_errors():
        if urlsplit(checked).scheme in _REDIS:
            broker = _redis_broker(checked)
            require_bytes(broker)
            return broker
        return _rabbitmq_broker(checked)


def require_answer(url: str | None) -> None:
    """Connect to the broker of a URL once and let go of it.

    Raises:
        ConfigInvalidError: The URL is missing or wrong.
        ConnectionFailedError: Nobody answers within some seconds, or the broker refuses us.
    """
    broker_from_url(url)  # refuses what a worker would meet later
    checked = checked_url(url)
    parts = urlsplit(checked)
    with _url_errors(), broker_errors(_place(parts.scheme, parts.hostname, parts.port)):
        if parts.scheme in _REDIS:
            _ask_redis(checked)
        else:
            _ask_rabbitmq(checked)


def require_bytes(broker: Broker) -> None:
    """See that a broker on Redis gets its messages back as bytes.

    Raises:
        ConfigInvalidError: Its connection decodes responses.
    """
    # Of a URL it is a text: ``false`` decodes as well.
    if _connection_settings(broker).get("decode_responses"):
        raise ConfigInvalidError(
            "Dramatiq cannot work over a connection to Redis that decodes: leave decode_responses out of its URL, or "
            "of its settings."
        )


@contextmanager
def broker_errors(broker: Broker | str) -> Iterator[None]:
    """Turn what a broker's library raises into ``ConnectionFailedError``, without credentials.

    Args:
        broker: The broker, or how to name it.

    Raises:
        ConnectionFailedError: The library of the broker raised; errors of anything else pass as they are.
    """
    try:
        yield
    except Exception as error:
        if not isinstance(error, _library_errors()):
            raise
        place = broker if isinstance(broker, str) else describe(broker)
        raise ConnectionFailedError(
            f"{place} does not answer or refuses us ({_reason(error)}); start it, or correct its URL."
        ) from None


def describe(broker: Broker) -> str:
    """Name a broker by its kind, host and port: what can be shown to everybody."""
    settings = _connection_settings(broker)
    if settings:
        return _place("redis", settings.get("host"), settings.get("port"))
    parameters = getattr(broker, "parameters", None)
    first = parameters[0] if isinstance(parameters, list) and parameters else parameters
    if first is not None:
        return _place("amqp", getattr(first, "host", None), getattr(first, "port", None))
    return f"The broker ({type(broker).__name__})"


def _connection_settings(broker: Broker) -> Mapping[str, Any]:
    """Those of a broker on Redis; nothing of any other."""
    pool = getattr(getattr(broker, "client", None), "connection_pool", None)
    settings: Mapping[str, Any] = getattr(pool, "connection_kwargs", {})
    return settings


def _redis_broker(url: str) -> Broker:
    import redis
    from dramatiq.brokers.redis import RedisBroker

    return RedisBroker(  # type: ignore[no-untyped-call]
        client=redis.Redis.from_url(url, socket_connect_timeout=_CONNECT_TIMEOUT),
        heartbeat_timeout=_HEARTBEAT_TIMEOUT,
        maintenance_chance=_MAINTENANCE_CHANCE,
    )


def _rabbitmq_broker(url: str) -> Broker:
    from dramatiq.brokers.rabbitmq import RabbitmqBroker

    return RabbitmqBroker(url=url, confirm_delivery=True)


def _ask_redis(url: str) -> None:
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    with redis.Redis.from_url(
        url, socket_connect_timeout=_CONNECT_TIMEOUT, socket_timeout=_CONNECT_TIMEOUT, retry=Retry(NoBackoff(), 0)
    ) as client:
        client.ping()


def _ask_rabbitmq(url: str) -> None:
    import pika  # type: ignore[import-untyped]

    parameters = pika.URLParameters(url)
    parameters.connection_attempts = 1
    parameters.socket_timeout = parameters.stack_timeout = _CONNECT_TIMEOUT
    pika.BlockingConnection(parameters).close()


@contextmanager
def _url_errors() -> Iterator[None]:
    """What libraries say about options in a URL can quote them."""
    try:
        yield
    except (ValueError, TypeError):
        raise ConfigInvalidError(f"An option in the URL of the broker cannot be used; correct {BROKER_URL}.") from None
    except ImportError as error:
        raise ConfigInvalidError(
            f'The library for this broker is missing ({error.name}); pip install "migronaut[dramatiq]".'
        ) from None


def _library_errors() -> tuple[type[Exception], ...]:
    """The errors of the libraries that are here; of the others nothing can be raised."""
    errors: list[type[Exception]] = [BrokerError, OSError]
    with suppress(ImportError):
        import redis

        errors.append(redis.RedisError)
    with suppress(ImportError):
        import pika.exceptions  # type: ignore[import-untyped]

        errors.append(pika.exceptions.AMQPError)
    return tuple(errors)


def _place(scheme: str, host: str | None, port: int | None) -> str:
    name = "Redis" if scheme in _REDIS else "RabbitMQ"
    where = f" at {host}:{port}" if host and port else f" at {host}" if host else ""
    return f"{name}{where}"


def _reason(error: Exception) -> str:
    """One clause; pika's errors often have no text at all."""
    return redact(error).rstrip(".") or type(error).__name__
