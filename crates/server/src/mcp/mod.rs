//! The MCP server: tools, resources and prompts for agents. The same handler serves stdio and
//! HTTP; the transport provides the caller's grant.

mod caller;
mod convert;
#[cfg(test)]
mod fence_tests;
mod progress;
mod prompts;
mod render;
mod resources;
mod schema;
mod stdio;
mod tasks;
mod tools;
mod types;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
    CompleteRequestParams, CompleteResult, CompletionInfo, CreateTaskResult, CustomRequest,
    CustomResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
    Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, Tool, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::TaskContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use treering_core::TenantId;
use treering_core::ports::ConversationFilter;

use crate::service::{Grant, ServiceError, TaskKind, TokenScope};
pub use caller::claude_code_session;
pub use stdio::serve_stdio;

use progress::Progress;
use resources::protocol_error;
use tasks::Tasks;
use tools::MemoryTool;

/// Bounds of `max_tokens`.
const MIN_ANSWER_TOKENS: u32 = 200;
const MAX_ANSWER_TOKENS: u32 = 200_000;
/// Default token budget of a context.
const CONTEXT_TOKENS: u32 = 8000;
/// Maximum number of completions.
const COMPLETIONS: usize = 20;

/// The MCP server.
#[derive(Clone)]
pub struct McpServer {
    /// The grant of every request; `None` if each request carries its own.
    grant: Option<Grant>,
    /// The key of the session that the server was started for.
    caller: Option<String>,
    tasks: Tasks,
}

impl McpServer {
    /// A server with one grant for all requests, for the user who started the process.
    #[must_use]
    pub fn of(grant: Grant) -> Self {
        Self { grant: Some(grant), caller: None, tasks: Tasks::default() }
    }

    /// A server for one session of an agent, by its key. A search leaves that session out.
    #[must_use]
    pub fn asked_by(self, session: Option<String>) -> Self {
        Self { caller: session, ..self }
    }

    /// A server whose requests carry their grant in the extensions of the HTTP request. Clones
    /// share their tasks.
    #[must_use]
    pub fn by_request() -> Self {
        Self { grant: None, caller: None, tasks: Tasks::default() }
    }

    fn grant(&self, context: &RequestContext<RoleServer>) -> Result<Grant, ErrorData> {
        let of_request = || {
            context
                .extensions
                .get::<axum::http::request::Parts>()?
                .extensions
                .get::<Grant>()
                .cloned()
        };
        let grant = self.grant.clone().or_else(of_request);
        grant.ok_or_else(|| ErrorData::internal_error("the request has no grant", None))
    }

    /// The tenant of a request about a task.
    fn owner(&self, context: &RequestContext<RoleServer>) -> Result<TenantId, ErrorData> {
        let grant = self.grant(context)?;
        let service = grant.require(TokenScope::Write);
        Ok(service.map_err(|refusal| protocol_error(&refusal))?.engine().tenant().clone())
    }

    /// Runs a long call as a task. `None` if the client does not support tasks or the caller may
    /// not write; answer such a call directly. Also for the tools that a program adds.
    pub fn run_as_task<Call>(
        &self,
        context: &RequestContext<RoleServer>,
        call: impl FnOnce(TaskContext) -> Call,
    ) -> Option<CallToolResponse>
    where
        Call: Future<Output = Result<CallToolResult, ErrorData>> + Send + 'static,
    {
        let is_supported = context.client_capabilities().is_some_and(|it| it.supports_tasks());
        let owner = is_supported.then(|| self.owner(context).ok()).flatten()?;
        let task = self.tasks.start(&owner, call)?;
        Some(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    /// Runs work that only reads. Maps errors to protocol errors.
    async fn read<T: Send + 'static>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl FnOnce(&crate::service::Service) -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ErrorData> {
        let grant = self.grant(context)?;
        let service =
            grant.require(TokenScope::Read).map_err(|refusal| protocol_error(&refusal))?;
        service.run(TaskKind::Read, work).await.map_err(|refusal| protocol_error(&refusal))
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .enable_completions()
            .enable_tasks()
            .build();
        let server_info = Implementation::new("treering", env!("CARGO_PKG_VERSION"))
            .with_title("Treering")
            .with_description("A memory for conversations with language models");
        ServerConfig::new(capabilities)
            .with_server_info(server_info)
            .with_instructions(include_str!("instructions.md").trim())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = MemoryTool::ALL.into_iter().map(MemoryTool::declaration);
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        MemoryTool::named(name).map(MemoryTool::declaration)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = MemoryTool::named(&request.name) else {
            let known = MemoryTool::ALL.map(MemoryTool::name);
            let message =
                format!("unknown tool {:?}; the tools are {}", request.name, known.join(", "));
            return Err(ErrorData::invalid_params(message, None));
        };
        let (grant, progress) = (self.grant(&context)?, Progress::of(&context));
        let mut arguments = request.arguments.unwrap_or_default();
        let caller = caller::session_of(&context.meta).or_else(|| self.caller.clone());
        if let (MemoryTool::Search | MemoryTool::Context, Some(caller)) = (tool, caller) {
            arguments.entry("asked_by").or_insert_with(|| caller.into());
        }
        if tool.is_long() {
            let (grant, arguments) = (grant.clone(), arguments.clone());
            let started = self.run_as_task(&context, |task| async move {
                let answer = tool.call(arguments, &grant, &Progress::of_task(task)).await;
                Ok(answer.unwrap_or_else(|refusal| convert::refused(&refusal)))
            });
            if let Some(task) = started {
                return Ok(task);
            }
        }
        let called = tool.call(arguments, &grant, &progress);
        let answer = tokio::select! {
            answer = called => answer,
            () = context.ct.cancelled() => {
                let message = "the call was canceled; its jobs continue in the background";
                Err(ServiceError::InvalidRequest(message.into()))
            }
        };
        Ok(answer.unwrap_or_else(|refusal| convert::refused(&refusal)).into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let owner = self.owner(&context)?;
        Ok(GetTaskResult::new(self.tasks.get(&owner, &request.task_id)?))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let owner = self.owner(&context)?;
        self.tasks.update(&owner, &request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel(&self.owner(&context)?, &request.task_id)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        self.read(&context, move |service| resources::list(service, cursor.as_deref())).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.clone();
        let read = self.read(&context, move |service| resources::read(service, &request.uri));
        let named = |error| ErrorData { data: Some(json!({ "uri": uri })), ..error };
        Ok(read.await.map_err(named)?.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::prompts()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let got = self.read(&context, move |service| {
            prompts::get(service, &request.name, request.arguments.as_ref())
        });
        Ok(got.await?.into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(stdio::refusal_of(&request.method))
    }

    /// Completes conversation slugs.
    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        if request.argument.name != "conversation" {
            return Ok(CompleteResult::default());
        }
        let prefix = request.argument.value;
        let names = self.read(&context, move |service| {
            let sessions = service.engine().listed_conversations(&ConversationFilter::all(1000))?;
            let slugs = sessions.into_iter().map(|session| session.conversation.slug);
            Ok(slugs.filter(|slug| slug.starts_with(&prefix)).take(COMPLETIONS).collect::<Vec<_>>())
        });
        let completion = CompletionInfo::new(names.await?)
            .map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(completion))
    }
}
