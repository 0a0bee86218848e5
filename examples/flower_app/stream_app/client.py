"""The clients' side: hand messages to the resident node. Flower's modifiers may be added here."""

from headwater.flower import node_app

app = node_app()
