//! The models, one subject per file or folder.

mod admission;
mod alone;
mod applied;
mod batch;
mod build;
mod elsewhere;
mod gate;
mod handles;
mod in_order;
mod lane;
mod order;
mod peek;
mod push_settle;
mod push_take;
mod relist;
mod requeue;
mod retire;
mod running;
mod scopes;
mod scopes_in_order;
mod sleep;
mod store;
mod synced;
mod tenure;
mod two_consumers;
mod user_code;
mod waiting;

use crate::explore::Model;

/// Returns all models.
pub fn all() -> Vec<&'static Model> {
    [
        push_take::MODELS,
        two_consumers::MODELS,
        push_settle::MODELS,
        retire::MODELS,
        running::MODELS,
        sleep::MODELS,
        order::MODELS,
        synced::MODELS,
        waiting::MODELS,
        peek::MODELS,
        requeue::MODELS,
        store::MODELS,
        build::MODELS,
        alone::MODELS,
        relist::MODELS,
        batch::MODELS,
        elsewhere::MODELS,
        lane::MODELS,
        applied::MODELS,
        handles::MODELS,
        in_order::MODELS,
        user_code::MODELS,
        scopes::lists::MODELS,
        scopes::membership::MODELS,
        scopes::versions::MODELS,
        scopes::elsewhere::MODELS,
        scopes_in_order::MODELS,
        admission::MODELS,
        tenure::MODELS,
        gate::MODELS,
    ]
    .into_iter()
    .flatten()
    .collect()
}
