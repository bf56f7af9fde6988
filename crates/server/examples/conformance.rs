//! Treering's MCP server, extended with the tools, resources and prompts that the MCP conformance
//! suite requires, to run the suite against both transports. Also an example of a program that
//! adds its own tools.
//!
//! Run `cargo run -p treering-server --example conformance -- FOLDER stdio`, or `http` to print the
//! address to connect to.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use confique::Config as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientCapabilities,
    CompleteRequestParams, CompleteResult, ContentBlock, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, GetTaskParams, GetTaskResult, JsonObject, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, Prompt, PromptArgument, PromptMessage, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Role,
    ServerConfig, TASKS_EXTENSION_ID, Tool, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use treering::config::Settings;
use treering_server::http::Server;
use treering_server::mcp::{McpServer, serve_stdio};
use treering_server::service::{Grant, Service};

/// A one-pixel image and an empty sound.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3A0FDAAAAAElFTkSuQmCC";
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

#[tokio::main]
#[allow(clippy::print_stdout)]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, transport] = args.as_slice() else {
        return Err("usage: conformance FOLDER stdio|http".into());
    };
    let home = PathBuf::from(folder);
    let service =
        Service::new(treering::open_engine(&home)?, Arc::new(Settings::builder().load()?));
    match transport.as_str() {
        "stdio" => Ok(serve_stdio(Extended(McpServer::of(Grant::full_access(service)))).await?),
        "http" => {
            let mcp = McpServer::by_request();
            let make = move || Extended(mcp.clone());
            let server =
                Server::bind_with(service, &home, ([127, 0, 0, 1], 0).into(), make).await?;
            println!("http://{}", server.address()?);
            server.run(std::future::pending()).await;
            Ok(())
        }
        other => Err(format!("unknown transport {other:?}; use stdio or http").into()),
    }
}

/// Treering's server with the additions for the suite.
struct Extended(McpServer);

impl ServerHandler for Extended {
    fn get_info(&self) -> ServerConfig {
        self.0.get_info()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut list = self.0.list_tools(request, context).await?;
        list.tools.extend(tools());
        Ok(list)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools().into_iter().find(|tool| tool.name == name).or_else(|| self.0.get_tool(name))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let image = || ContentBlock::image(PNG, "image/png");
        let content = match request.name.as_ref() {
            "test_simple_text" => {
                vec![ContentBlock::text("This is a simple text response for testing.")]
            }
            "test_image_content" => vec![image()],
            "test_audio_content" => vec![ContentBlock::audio(WAV, "audio/wav")],
            "test_embedded_resource" => {
                let text = "This is an embedded resource content.";
                vec![ContentBlock::embedded_text("test://embedded-resource", text)]
            }
            "test_multiple_content_types" => {
                let data = json!({ "test": "data", "value": 123 }).to_string();
                let resource = ResourceContents::text(data, "test://mixed-content-resource")
                    .with_mime_type("application/json");
                vec![
                    ContentBlock::text("Multiple content types test:"),
                    image(),
                    ContentBlock::resource(resource),
                ]
            }
            "test_error_handling" => {
                let text = "This tool intentionally returns an error for testing";
                return Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into());
            }
            "test_tool_with_progress" => vec![ContentBlock::text(progress(&context).await)],
            "test_logging_tool" | "test_streaming_elicitation" => {
                vec![ContentBlock::text("The server sends only results.")]
            }
            "test_custom_header" => vec![ContentBlock::text("The header matches.")],
            "greet" => {
                let name = request.arguments.as_ref().and_then(|it| it.get("name")?.as_str());
                vec![ContentBlock::text(format!("Hello, {}!", name.unwrap_or("you")))]
            }
            "slow_compute" | "failing_job" | "protocol_error_job" | "test_missing_capability" => {
                let started = self.0.run_as_task(&context, |_| job(request.clone()));
                return match (started, request.name.as_ref()) {
                    (Some(task), _) => Ok(task),
                    (None, "slow_compute") => job(request).await.map(Into::into),
                    (None, "test_missing_capability") => Err(missing(&json!({ "sampling": {} }))),
                    (None, _) => Err(missing(&json!({ "extensions": { TASKS_EXTENSION_ID: {} } }))),
                };
            }
            _ => return self.0.call_tool(request, context).await,
        };
        Ok(CallToolResult::success(content).into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.0.get_task(request, context).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.update_task(request, context).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.cancel_task(request, context).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut list = self.0.list_resources(request, context).await?;
        let resource = |name: &str| {
            Resource::new(format!("test://{name}"), name)
                .with_description("For the conformance suite")
        };
        list.resources.extend(["static-text", "static-binary"].map(resource));
        Ok(list)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut list = self.0.list_resource_templates(request, context).await?;
        list.resource_templates
            .push(ResourceTemplate::new("test://template/{id}/data", "template"));
        Ok(list)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = request.uri.as_str();
        let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        let contents = match (uri, id) {
            ("test://static-text", _) => {
                ResourceContents::text("This is the content of the static text resource.", uri)
                    .with_mime_type("text/plain")
            }
            ("test://static-binary", _) => {
                ResourceContents::blob(PNG, uri).with_mime_type("image/png")
            }
            (_, Some(id)) => {
                let data =
                    json!({ "id": id, "templateTest": true, "data": format!("Data for ID: {id}") });
                ResourceContents::text(data.to_string(), uri).with_mime_type("application/json")
            }
            _ => return self.0.read_resource(request, context).await,
        };
        Ok(ReadResourceResult::new(vec![contents]).into())
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut list = self.0.list_prompts(request, context).await?;
        let prompt = |(name, arguments): (&str, &[&str])| {
            let arguments =
                arguments.iter().map(|name| PromptArgument::new(*name).with_required(true));
            Prompt::new(name, Some("For the conformance suite"), Some(arguments.collect()))
        };
        list.prompts.extend(
            [
                ("test_simple_prompt", [].as_slice()),
                ("test_prompt_with_arguments", &["arg1", "arg2"]),
                ("test_prompt_with_embedded_resource", &["resourceUri"]),
                ("test_prompt_with_image", &[]),
            ]
            .map(prompt),
        );
        Ok(list)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let argument = |name: &str| {
            let value = request.arguments.as_ref().and_then(|arguments| arguments.get(name));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let content = match request.name.as_str() {
            "test_simple_prompt" => {
                vec![ContentBlock::text("This is a simple prompt for testing.")]
            }
            "test_prompt_with_arguments" => {
                let (first, second) = (argument("arg1"), argument("arg2"));
                vec![ContentBlock::text(format!(
                    "Prompt with arguments: arg1='{first}', arg2='{second}'"
                ))]
            }
            "test_prompt_with_embedded_resource" => vec![
                ContentBlock::embedded_text(
                    argument("resourceUri"),
                    "Embedded resource content for testing.",
                ),
                ContentBlock::text("Please process the embedded resource above."),
            ],
            "test_prompt_with_image" => vec![
                ContentBlock::image(PNG, "image/png"),
                ContentBlock::text("Please analyze the image above."),
            ],
            _ => return self.0.get_prompt(request, context).await,
        };
        let messages = content.into_iter().map(|content| PromptMessage::new(Role::User, content));
        Ok(GetPromptResult::new(messages.collect()).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.0.complete(request, context).await
    }
}

fn tools() -> Vec<Tool> {
    let names = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_error_handling",
        "test_tool_with_progress",
        "test_logging_tool",
        "test_streaming_elicitation",
        "test_missing_capability",
        "greet",
        "slow_compute",
        "failing_job",
        "protocol_error_job",
    ];
    let tool = |name, schema: Value| {
        let schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
        Tool::new(name, "For the conformance suite", schema)
    };
    let mut tools: Vec<Tool> =
        names.into_iter().map(|name| tool(name, json!({ "type": "object" }))).collect();
    tools.push(tool(
        "json_schema_2020_12_tool",
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": { "address": { "$anchor": "addressDef", "type": "object", "properties": {
                "street": { "type": "string" }, "city": { "type": "string" } } } },
            "properties": {
                "name": { "type": "string" },
                "address": { "$ref": "#/$defs/address" },
                "contactMethod": { "type": "string", "enum": ["phone", "email"] },
                "phone": { "type": "string" },
                "email": { "type": "string" }
            },
            "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
            "if": { "properties": { "contactMethod": { "const": "phone" } },
                "required": ["contactMethod"] },
            "then": { "required": ["phone"] },
            "else": { "required": ["email"] },
            "additionalProperties": false
        }),
    ));
    tools.push(tool(
        "test_custom_header",
        json!({
            "type": "object",
            "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
            "required": ["region"]
        }),
    ));
    tools
}

/// The error for a client that lacks a capability.
fn missing(capability: &Value) -> ErrorData {
    let required = serde_json::from_value::<ClientCapabilities>(capability.clone());
    ErrorData::missing_required_client_capability(required.unwrap_or_default())
}

/// A job that takes a while: it succeeds, fails as a tool, or fails as a request.
async fn job(request: CallToolRequestParams) -> Result<CallToolResult, ErrorData> {
    let seconds = request.arguments.as_ref().and_then(|it| it.get("seconds")?.as_u64());
    tokio::time::sleep(Duration::from_secs(seconds.unwrap_or(1))).await;
    match request.name.as_ref() {
        "failing_job" => Ok(CallToolResult::error(vec![ContentBlock::text("The job failed.")])),
        "protocol_error_job" => Err(ErrorData::internal_error("the job broke", None)),
        _ => Ok(CallToolResult::success(vec![ContentBlock::text("Done.")])),
    }
}

/// Reports progress in three steps if the client provided a progress token.
async fn progress(context: &RequestContext<RoleServer>) -> String {
    let Some(token) = context.meta.get_progress_token() else {
        return "The client did not request progress.".into();
    };
    for done in [0.0, 50.0, 100.0] {
        let note = ProgressNotificationParam::new(token.clone(), done).with_total(100.0);
        if let Err(error) = context.peer.notify_progress(note).await {
            return format!("cannot send progress: {error}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    "Progress was reported.".into()
}
