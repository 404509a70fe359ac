"""The configuration of the numerics, from the settings and telemetry's facts."""

import numpy as np

from carico_agent import settings
from carico_agent.learning import local_model, pipeline
from carico_agent.telemetry import panel
from carico_core.domain import errors
from carico_core.numerics import estimators
from carico_core.numerics.estimators import base
from carico_core.wire import freshness


def node_config(chosen: settings.AgentSettings, facts: panel.Facts) -> base.EstimatorConfig:
    """Return the node's facts for the estimator."""
    ceilings = {"cpu": chosen.ceiling_cpu, "memory": chosen.ceiling_memory}
    return base.EstimatorConfig(
        dims=facts.dims,
        scale=np.array(facts.scale),
        cores=facts.cores,
        ceiling=np.array([ceilings.get(dim, base.OTHER_CEILING) for dim in facts.dims]),
        pod_limit=chosen.pod_limit,
        signal_mode=estimators.signal_mode(chosen.estimator),
    )


def pipeline_config(chosen: settings.AgentSettings, node: base.EstimatorConfig) -> pipeline.PipelineConfig:
    """Return the pipeline's configuration. Raises `SettingsError` for a rank that the model cannot have."""
    try:
        local_model.make(chosen.model, rank=chosen.model_rank, dimensions=len(node.dims))
    except ValueError as error:
        raise errors.SettingsError(str(error)) from error
    return pipeline.PipelineConfig(
        estimator=chosen.estimator,
        node=node,
        model=chosen.model,
        model_rank=chosen.model_rank,
        model_max_age_s=freshness.MODEL_LEASES * chosen.bus.lease_s,
    )
