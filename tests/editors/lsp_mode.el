;;; What a user's init file says of lsp-mode.  -*- lexical-binding: t -*-
;; After session.el.

(require 'lsp-mode)
(require 'lsp-diagnostics)

(setq lsp-client-packages nil ; no other server
      lsp-auto-guess-root t
      lsp-diagnostics-provider :none ; they are kept all the same
      lsp-enable-file-watchers nil
      lsp-enable-snippet nil
      lsp-modeline-code-actions-enable nil
      lsp-restart 'ignore
      lsp-idle-delay 0.1)

(lsp-register-client
 (make-lsp-client
  :new-connection (lsp-stdio-connection lspool-command)
  :activation-fn (lsp-activate-on "python")
  :server-id 'lspool-pyright))

(defun lspool-ask (method)
  "The answer to METHOD about the place of point.
Not by `lsp-request': it leaves the filter of the process by `throw', and drops what came in one piece with the answer."
  (let (answer)
    (lsp-request-async method (lsp--text-document-position-params) (lambda (it) (setq answer (list it)))
                       :mode 'detached)
    (car (lspool-wait method (lambda () answer)))))

(lspool-session
 `((start . ,(lambda ()
               (lsp-workspace-folders-add default-directory)
               (lsp)
               (lspool-wait "workspace" (lambda () (seq-some (lambda (it) (eq 'initialized (lsp--workspace-status it)))
                                                             (lsp-workspaces))))))
   (diagnostics . ,(lambda ()
                     (mapcar #'lsp:diagnostic-message
                             (gethash (expand-file-name "greeting.py") (lsp-diagnostics t)))))
   (hover . ,(lambda () (lsp:markup-content-value (lsp:hover-contents (lspool-ask "textDocument/hover")))))
   (line . ,(lambda ()
              (1+ (lsp:position-line (lsp:range-start (lsp:location-range
                                                      (seq-first (lspool-ask "textDocument/definition"))))))))
   (changed . ,#'lsp--flush-delayed-changes)
   (completion . ,(lambda ()
                    (let ((found (lspool-ask "textDocument/completion")))
                      (mapcar #'lsp:completion-item-label
                              (if (lsp-completion-list? found) (lsp:completion-list-items found) found)))))
   (stop . ,(lambda () (lsp-workspace-shutdown (car (lsp-workspaces)))
              (lspool-wait "end" (lambda () (null (lsp-workspaces))))))))
