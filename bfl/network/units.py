"""How a machine's one command is run as a service: a systemd unit and a container file, from the same description."""

from bfl import __version__

UNIT, CONTAINER = "bfl.service", "Containerfile"
_PLACE = "/var/lib/bfl"


def service_unit(role: str, name: str) -> bytes:
    """A hardened unit: its kit is all that it may write. The password is a credential, encrypted on this machine."""
    return f"""# Copy the kit to {_PLACE}/{name} (owner: bfl), this file to /etc/systemd/system/bfl.service, then:
#   systemd-ask-password -n | systemd-creds encrypt --name=bfl-password - /etc/credstore.encrypted/bfl-password
#   systemctl enable --now bfl
[Unit]
Description=bfl {role} {name}
Wants=network-online.target time-sync.target
After=network-online.target time-sync.target

[Service]
ExecStart=/opt/bfl/bin/bfl network {role} {_PLACE}/{name}
User=bfl
LoadCredentialEncrypted=bfl-password
Restart=always
RestartSec=5
TimeoutStopSec=60
KillMode=mixed
UMask=0077
NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ReadWritePaths={_PLACE}/{name}
ProtectHome=read-only
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native

[Install]
WantedBy=multi-user.target
""".encode()


def container_file(role: str) -> bytes:
    """The same command in a container; the kit is a volume, and no part of the image."""
    extra = "simulation" if role == "edge" else "chain"
    wheel = f"bfl-{__version__}-py3-none-any.whl"
    return f"""# In a clone of bfl, for the wheel: pip wheel --no-deps -w KIT . ; then, here:
# podman build -t bfl-{role} . ; podman run --network=host -v ./KIT:/kit -e BFL_KEY_PASSWORD bfl-{role}
FROM docker.io/library/python:3.11-slim
COPY {wheel} /tmp/
RUN pip install --no-cache-dir '/tmp/{wheel}[{extra}]' && useradd --uid 1000 bfl
USER bfl
VOLUME /kit
ENTRYPOINT ["bfl", "network", "{role}", "/kit"]
""".encode()
