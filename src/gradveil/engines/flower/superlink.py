"""Flower's SuperLink as gradveil starts it: behind a gate, and with delivered messages erased.

It uses parts of flwr that are not public, hence the exact pin.
"""

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import uvicorn
from flwr.supercore.http_logging import get_uvicorn_log_config
from flwr.supercore.logger import console_handler
from flwr.superlink.cli.flower_superlink import SuperLinkLifespan, _parse_superlink_lifespan_config
from flwr.superlink.main import create_app
from sqlalchemy import Engine, event

from gradveil.engines.flower.commands import SuperLinkConfig
from gradveil.engines.flower.gate import gated

_PATIENCE = 10.0
"""Seconds to wait for a database that is being written."""


def serve(config: SuperLinkConfig) -> None:
    """Run the SuperLink of a server until the process is stopped."""
    event.listen(Engine, "connect", _overwrite_deleted)
    sys.argv = ["flower-superlink", *config.arguments()]  # Flower reads its settings from there
    flower_config = _parse_superlink_lifespan_config()
    app: Any = create_app(flower_config, SuperLinkLifespan)
    uvicorn.run(
        gated(app, config.owner.read_bytes()),
        host=flower_config.host,
        port=flower_config.port,
        access_log=False,
        log_config=get_uvicorn_log_config(console_handler.level),
        ssl_keyfile=flower_config.ssl_keyfile,
        ssl_certfile=flower_config.ssl_certfile,
        workers=1,
    )


def _overwrite_deleted(connection: Any, record: Any) -> None:
    """Let SQLite overwrite deleted rows: delivered updates would stay in the file otherwise."""
    connection.execute("PRAGMA secure_delete = ON")


def prune(database: Path) -> None:
    """Empty the write-ahead log of a SuperLink's database, where delivered updates would still be found.

    Flower deletes a message once it was pulled and confirmed, and deleted rows are overwritten. A database that is
    busy for long is left for the next time.
    """
    if not database.exists():
        return
    with closing(sqlite3.connect(database, timeout=_PATIENCE)) as link:
        link.execute("PRAGMA wal_checkpoint(TRUNCATE)")
